"""Training of the members of a stacked decoder: a step, a step as one CUDA graph, and a run of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.stacked import clip_by_member, losses, members_of, stack

IGNORED = -100
Step = Callable[[Tensor, Tensor], Tensor]
"""Of ids and labels (M B, T), the first member's rows first: each member's loss (M,) before the step."""
Batches = tuple[Tensor, Tensor]
"""Ids and labels of some steps, (steps, M B, T)."""


def device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def decoder(settings: dict[str, Any], vocabulary: int, seed: int) -> DecoderForCausalLM:
    """Make the decoder of the seed's initial weights, on the GPU if there is one."""
    torch.manual_seed(seed)
    config = DecoderConfig.from_settings(DecoderSettings.model_validate(settings), vocabulary)
    model: Any = DecoderForCausalLM(config)
    placed: DecoderForCausalLM = model.to(device())
    return placed


def adamw(model: DecoderForCausalLM, rate: float) -> torch.optim.AdamW:
    """As `remedy train` has it without weight decay; on a GPU its learning rate is a tensor, which a graph reads anew."""
    on_cuda = next(model.parameters()).is_cuda
    lr = torch.tensor(rate, device=device()) if on_cuda else rate
    return torch.optim.AdamW(
        model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.0, fused=on_cuda, capturable=on_cuda
    )


def stepper(model: DecoderForCausalLM, optimizer: torch.optim.Optimizer, precision: str = "fp32") -> Step:
    """Return a training step, of a stacked decoder or of one alone."""
    parameters = list(model.parameters())
    kind, alone = parameters[0].device.type, parameters[0].ndim == 2  # the table of embeddings

    def step(ids: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        half = torch.autocast(kind, dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        with half:
            if alone:
                each = model(input_ids=ids, labels=labels, use_cache=False).loss[None]
            else:
                sums, counts = losses(model, ids, labels)
                each = sums / counts.clamp(min=1)
        each.sum().backward()
        if alone:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        else:
            clip_by_member(parameters, 1.0)
        optimizer.step()
        return each.detach()

    return step


def captured(step: Step, ids: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    """Return the whole step as one CUDA graph, which reads ids and labels from where these lie. Three steps are taken on the way."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(ids, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(ids, labels)

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


def trained(
    model: DecoderForCausalLM, batches: Callable[[int, int], Batches], stages: list[int], rate: float, every: int
) -> Iterator[tuple[int, Tensor]]:
    """Train in stages of some steps each, with warm-up and cosine decay; yields step and losses (M,), every so many steps.

    `batches(stage, first)` gives those of `every` steps from a step on; the next are made while these are trained on. What is captured
    for a stage begins with three steps of its first batch at a learning rate of zero.
    """
    optimizer, total, done = adamw(model, rate), sum(stages), 0
    step = stepper(model, optimizer)
    starts = [(stage, first) for stage, steps in enumerate(stages) for first in range(0, steps, every)]
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(batches, *starts[0])
        current = -1
        for number, (stage, first) in enumerate(starts):
            ids, labels = coming.result()
            if number + 1 < len(starts):
                coming = ahead.submit(batches, *starts[number + 1])
            if stage != current:
                current, here = stage, (ids[0].to(device()), labels[0].to(device()))
                _set_rate(optimizer, 0.0)
                run = captured(step, *here) if here[0].is_cuda else lambda: step(*here)  # noqa: B023
            for row in range(min(every, stages[stage] - first)):
                here[0].copy_(ids[row], non_blocking=True)
                here[1].copy_(labels[row], non_blocking=True)
                _set_rate(optimizer, rate * _share(done, total))
                loss = run()
                done += 1
            yield done, loss.cpu()


def _share(done: int, total: int) -> float:
    """Return the share of the learning rate's peak: it rises over a twentieth of the steps and falls to zero as a cosine."""
    rising = max(1, total // 20)
    if done < rising:
        return (done + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (done - rising) / max(1, total - rising)))


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@torch.no_grad()
def exact(model: DecoderForCausalLM, ids: Tensor, labels: Tensor, rows: int) -> Tensor:
    """Return (M, N): which of the examples (N, T) each member would write without a fault.

    Every labelled token is chosen, given the true ones before it. `rows` of a member are read at a time.
    """
    members, found = members_of(model), []
    for part, wanted in zip(ids.split(rows), labels.split(rows), strict=True):
        every = part.to(device()).repeat(members, 1)
        written = model(input_ids=every, use_cache=False).logits[:, :-1].argmax(-1)
        targets = wanted[:, 1:].to(device()).repeat(members, 1)
        right = ((written == targets) | (targets == IGNORED)).all(1)
        found.append(right.view(members, -1).cpu())
    return torch.cat(found, 1)


def stacked(settings: dict[str, Any], vocabulary: int, seeds: range) -> DecoderForCausalLM:
    """Return decoders of these seeds as one."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return stack([decoder(settings, vocabulary, seed) for seed in seeds])
