"""How many seeds of a small decoder does one GPU train at a time, how fast, and does each learn what it learns alone?

The study's sizes: two layers of width 64, 32 rows a member. A step is all of a training step: forward, backward, gradients clipped by
member, AdamW. One member is the model as it is trained alone. `eager` is PyTorch as it comes, `graph` a captured CUDA graph of the
whole step, `compile` torch.compile of the model.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.queue import Cell, Facts
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.stacked import clip_by_member, losses, stack

MIXERS = ("attention", "deltanet", "gru", "mamba2")
MEMBERS = (1, 8, 32, 64)
ROWS, LENGTH, VOCABULARY, RATE = 32, 64, 64, 3e-3
EQUAL_STEPS = (1, 10, 30)


def cells(rehearse: bool) -> list[Cell]:
    """Equal losses first, then speeds by what decides most: float32 and graphs, then precisions, more tokens, and compilers."""
    if rehearse:
        small = {"rows": 2, "length": 6, "rounds": 1}
        equal = [
            Cell(f"equal {m}", {"mixer": m, "members": 2, "rows": 2, "length": 6, "steps": (1, 2)}) for m in MIXERS
        ]
        return [*equal, *(Cell(f"{m} 2", {"mixer": m, "members": 2, **small}) for m in MIXERS)]
    equal = [Cell(f"equal {m}", {"mixer": m, "members": 8, "steps": EQUAL_STEPS}) for m in MIXERS]
    first = [_speed(m, n, "fp32", how) for n in MEMBERS for how in ("eager", "graph") for m in MIXERS]
    then = [_speed(m, n, kind, "graph") for kind in ("tf32", "bf16") for n in (64, 1) for m in MIXERS]
    more = [_speed(m, 256, "fp32", "graph") for m in MIXERS]
    longer = [_speed(m, n, "fp32", "graph", 256) for n in (32, 1) for m in MIXERS]
    compiled = [_speed(m, 32, "fp32", "compile") for m in ("attention", "mamba2", "deltanet")]
    return [*equal, *first, *then, *more, *longer, *compiled]


def _speed(mixer: str, members: int, precision: str, how: str, length: int = LENGTH) -> Cell:
    given = {"mixer": mixer, "members": members, "precision": precision, "how": how, "length": length}
    name = f"{mixer} {members} {precision} {how}" + (f" {length}" if length != LENGTH else "")
    return Cell(name, given, seconds=100.0 if how == "compile" else 12.0, apart=how == "compile")


def measure(
    mixer: str,
    members: int,
    rows: int = ROWS,
    length: int = LENGTH,
    steps: tuple[int, ...] = (),
    rounds: int = 20,
    precision: str = "fp32",
    how: str = "eager",
) -> Iterator[Facts]:
    """With `steps` how far members' losses are then from those of each alone; else tokens a second and memory."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = (
        False  # `stack` holds members to each alone
    )
    try:
        models = [_model(mixer, seed).to(device) for seed in range(members)]
        if steps:
            yield from _equal(models, rows, length, steps)
        else:
            yield _fast(models, rows, length, rounds, precision, how)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def _model(mixer: str, seed: int) -> DecoderForCausalLM:
    torch.manual_seed(seed)
    settings = DecoderSettings.model_validate({"mixers": [mixer]})
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, VOCABULARY))


def _tokens(members: int, rows: int, length: int, step: int, device: torch.device) -> Tensor:
    """Of all members, the first member's rows first: its own tokens at each step."""
    drawn = [
        torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1000 * step + member))
        for member in range(members)
    ]
    return torch.cat(drawn).to(device)


def _stepper(model: DecoderForCausalLM, optimizer: torch.optim.Optimizer, precision: str, forward: Any) -> Any:
    """A training step of ids (M B, T), which returns each member's loss (M,) before it."""
    parameters = list(model.parameters())
    device = parameters[0].device.type
    alone = parameters[0].ndim == 2  # the table of embeddings

    def step(ids: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        cast = torch.autocast(device, dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        with cast:
            if alone:
                each = forward(input_ids=ids, labels=ids, use_cache=False).loss[None]
            else:
                sums, counts = losses(forward, ids, ids)
                each = sums / counts
        each.sum().backward()
        if alone:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        else:
            clip_by_member(parameters, 1.0)
        optimizer.step()
        return each.detach()

    return step


def _optimizer(model: DecoderForCausalLM) -> torch.optim.Optimizer:
    on_cuda = next(model.parameters()).is_cuda
    return torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=on_cuda, capturable=on_cuda)


def _equal(models: list[DecoderForCausalLM], rows: int, length: int, steps: tuple[int, ...]) -> Iterator[Facts]:
    """The largest difference of a member's loss from its loss alone, by step; and what a repetition alone differs by."""
    members, device = len(models), models[0].device
    together = stack(models)
    every = torch.stack(list(_losses(together, rows, length, steps[-1], range(members))))  # steps, members
    alone = torch.stack([torch.cat(list(_losses(m, rows, length, steps[-1], [n]))) for n, m in enumerate(models)], 1)
    again = torch.cat(list(_losses(_model(models[0].config.mixers[0], 0).to(device), rows, length, steps[-1], [0])))
    far, repeated = (every - alone).abs().amax(1), (again - alone[:, 0]).abs()
    yield {"loss_at_first": round(float(alone[0].mean()), 4), "loss_at_last": round(float(alone[-1].mean()), 4)}
    yield {"difference_at": {str(s): float(far[s - 1]) for s in steps}, "relative": float((far / alone.mean(1)).max())}
    yield {"of_a_repetition_at": {str(s): float(repeated[s - 1]) for s in steps}}


def _losses(model: DecoderForCausalLM, rows: int, length: int, steps: int, which: Any) -> Iterator[Tensor]:
    step, device = _stepper(model, _optimizer(model), "fp32", model), model.device
    for number in range(steps):
        ids = _tokens(max(which) + 1, rows, length, number, device)
        yield step(ids if len(which) > 1 else ids[-rows:]).cpu()


def _fast(models: list[DecoderForCausalLM], rows: int, length: int, rounds: int, precision: str, how: str) -> Facts:
    members, device = len(models), models[0].device
    model = models[0] if members == 1 else stack(models)
    if precision == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    ids = _tokens(members, rows, length, 0, device)
    begin = time.perf_counter()
    if how == "compile":
        model.compile()  # in place: what it computes with is still a decoder
    step = _stepper(model, _optimizer(model), precision, model)
    run = _captured(step, ids) if how == "graph" and device.type == "cuda" else lambda: step(ids)
    loss = run().mean()
    first = time.perf_counter() - begin + 0 * float(loss)
    seconds = _timed(run, rounds, device)
    found = {"tokens_per_second": round(ids.numel() / seconds), "step_ms": round(1000 * seconds, 3)}
    found |= {"first_step_s": round(first, 2), "parameters": sum(p.numel() for p in model.parameters()) // members}
    if device.type == "cuda":
        found["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 3)
    return {**found, "loss_after": round(float(run().mean()), 4)}


def _captured(step: Callable[[Tensor], Tensor], ids: Tensor) -> Callable[[], Tensor]:
    """The whole step as one CUDA graph, of tokens that are copied to where `ids` lies."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(ids)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(ids)

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


def _timed(run: Callable[[], Any], rounds: int, device: torch.device) -> float:
    """Median seconds of a step, after two that are left out, in five blocks of rounds that are waited for."""
    on_cuda = device.type == "cuda"
    blocks = []
    for block in range(6 if rounds > 1 else 2):
        begin = time.perf_counter()
        for _ in range(rounds):
            run()
        if on_cuda:
            torch.cuda.synchronize()
        blocks.append((time.perf_counter() - begin) / rounds)
        if block >= 2 and sum(blocks) * rounds > 4:
            break
    return statistics.median(blocks[1:])
