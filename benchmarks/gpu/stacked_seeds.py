"""Seeds of a small decoder that one GPU trains at a time: their number, their speed, and whether each learns what it learns alone.

The study's sizes: two layers of width 64, 32 rows a member. A step is all of a training step: forward, backward, gradients clipped by
member, AdamW. One member is the model as it is trained alone. `eager` is PyTorch as it comes, `graph` a captured CUDA graph of the
whole step, `compile` torch.compile of the model.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.members import adamw, captured, decoder, device, stepper
from benchmarks.gpu.queue import Cell, Facts
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.stacked import stack

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
    allowed = torch.backends.cuda.matmul.allow_tf32
    # `stack` holds members to each alone
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        models = [decoder({"mixers": [mixer]}, VOCABULARY, seed) for seed in range(members)]
        if steps:
            yield from _equal(models, rows, length, steps)
        else:
            yield _fast(models, rows, length, rounds, precision, how)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def _tokens(members: int, rows: int, length: int, step: int) -> Tensor:
    """Join the members' rows, the first member's first: its own tokens at each step."""
    drawn = [
        torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1000 * step + member))
        for member in range(members)
    ]
    return torch.cat(drawn).to(device())


def _equal(models: list[DecoderForCausalLM], rows: int, length: int, steps: tuple[int, ...]) -> Iterator[Facts]:
    """Yield the largest difference of a member's loss from its loss alone, by step; and what a repetition alone differs by."""
    members = len(models)
    together = stack(models)
    every = torch.stack(list(_losses(together, rows, length, steps[-1], range(members))))  # steps, members
    alone = torch.stack([torch.cat(list(_losses(m, rows, length, steps[-1], [n]))) for n, m in enumerate(models)], 1)
    again = torch.cat(
        list(_losses(decoder({"mixers": models[0].config.mixers}, VOCABULARY, 0), rows, length, steps[-1], [0]))
    )
    far, repeated = (every - alone).abs().amax(1), (again - alone[:, 0]).abs()
    yield {"loss_at_first": round(float(alone[0].mean()), 4), "loss_at_last": round(float(alone[-1].mean()), 4)}
    yield {"difference_at": {str(s): float(far[s - 1]) for s in steps}, "relative": float((far / alone.mean(1)).max())}
    yield {"of_a_repetition_at": {str(s): float(repeated[s - 1]) for s in steps}}


def _losses(model: DecoderForCausalLM, rows: int, length: int, steps: int, which: Any) -> Iterator[Tensor]:
    step = stepper(model, adamw(model, RATE))
    for number in range(steps):
        ids = _tokens(max(which) + 1, rows, length, number)
        ids = ids if len(which) > 1 else ids[-rows:]
        yield step(ids, ids).cpu()


def _fast(models: list[DecoderForCausalLM], rows: int, length: int, rounds: int, precision: str, how: str) -> Facts:
    members, on_cuda = len(models), device().type == "cuda"
    model = models[0] if members == 1 else stack(models)
    if precision == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if on_cuda:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    ids = _tokens(members, rows, length, 0)
    begin = time.perf_counter()
    if how == "compile":
        model.compile()  # in place: what it computes with is still a decoder
    step = stepper(model, adamw(model, RATE), precision)
    run = captured(step, ids, ids) if how == "graph" and on_cuda else lambda: step(ids, ids)
    loss = run().mean()
    first = time.perf_counter() - begin + 0 * float(loss)
    seconds = _timed(run, rounds)
    found = {"tokens_per_second": round(ids.numel() / seconds), "step_ms": round(1000 * seconds, 3)}
    found |= {"first_step_s": round(first, 2), "parameters": sum(p.numel() for p in model.parameters()) // members}
    if on_cuda:
        found["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 3)
    return {**found, "loss_after": round(float(run().mean()), 4)}


def _timed(run: Callable[[], Any], rounds: int) -> float:
    """Median seconds of a step, in blocks of rounds that are waited for, the first left out."""
    blocks: list[float] = []
    for block in range(6 if rounds > 1 else 2):
        begin = time.perf_counter()
        for _ in range(rounds):
            run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        blocks.append((time.perf_counter() - begin) / rounds)
        if block >= 2 and sum(blocks) * rounds > 4:
            break
    return statistics.median(blocks[1:])
