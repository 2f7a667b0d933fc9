"""Which state a model loses on a long way: every head's state after a long program, put in the place of the one that a short program
with the same result leaves behind.

python -m benchmarks.patching RUN [--lengths 1024] [--programs 60]    RUN: of configs/experiment/horizon.yaml, or its `model` folder

Any arrangement of n variables is reached by n - 1 swaps, so that each long program has a short one with the same beginning and the
same end. The model reads both, and answers from the state of the short one, in which one head's state (or a layer's, or all) is the
long one's: if the answers become wrong, that state is what was lost. The other way round, a short program's head in the long one's
state, says what alone would mend it (activation patching: Vig et al., "Investigating gender bias in language models using causal
mediation analysis", 2020; Meng et al., "Locating and editing factual associations in GPT", 2022). Beside them how like each other a
head's two states are, and how long the long program's is, the short one's being 1.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.reflections import swap_of
from benchmarks.sessions import Run, opened, programs
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer

States = list[Tensor]
"""Every layer's state, (H, K, V)."""
Part = tuple[int, int | None]
"""A layer, and one of its heads or all."""


class Ways(NamedTuple):
    """Tokens of a long program and of a short one, from the same beginning to the same end, and of that end: names and values."""

    long: list[int]
    short: list[int]
    answer: list[int]


def swap_tokens(tokenizer: TraceTokenizer, n: int) -> dict[tuple[int, int], int]:
    """The command that swaps two of n variables, by their places."""
    found: dict[tuple[int, int], int] = {}
    for token in range(tokenizer.vocab_size):
        first, second = map(ascii_lowercase.index, swap_of(tokenizer, token) or "zz")
        if max(first, second) < n:
            found[first, second] = found[second, first] = token
    return found


def short_way(before: Sequence[int], after: Sequence[int], swaps: Mapping[tuple[int, int], int]) -> list[int]:
    """Commands from one arrangement of n distinct values to another: at most n - 1, and pairs that undo each other up to n or n + 1."""
    values, commands = list(before), []
    for place, wanted in enumerate(after):
        other = values.index(wanted)
        if other != place:
            values[place], values[other] = values[other], values[place]
            commands.append(swaps[place, other])
    while len(commands) < len(before):
        commands += [swaps[0, 1]] * 2
    return commands


def read(model: CausalLM, row: Sequence[int]) -> States:
    """Every layer's state (H, K, V) after a row's tokens."""
    output: Any = model(input_ids=torch.tensor([list(row)]), use_cache=True)  # type: ignore[call-arg]
    return [layer.recurrent_states[0][0] for layer in output.past_key_values.layers]


def started(model: Any, starts: Sequence[States], answers: Tensor) -> Any:
    """A cache for answers (B, 2 n) that begins with these states."""
    cache = model.new_cache()
    model(input_ids=answers[:, :1], past_key_values=cache, use_cache=True)  # makes the places that are filled now
    for layer, found in zip(cache.layers, zip(*starts)):
        layer.recurrent_states[0] = torch.stack(found)
    return cache


def right(model: Any, starts: Sequence[States], answers: Tensor) -> int:
    """How many answers (B, 2 n), name after name, have the likeliest values from these states."""
    cache = started(model, starts, answers)
    likeliest = model(input_ids=answers, past_key_values=cache, use_cache=True).logits.argmax(-1)
    return int((likeliest[:, ::2] == answers[:, 1::2]).all(1).sum())


def patched(into: States, other: States, part: Part | None) -> States:
    """A row's states, those of a part taken from another's; None: all of them."""
    if part is None:
        return other
    layer, head = part
    found = [state.clone() for state in into]
    chosen = slice(None) if head is None else head
    found[layer][chosen] = other[layer][chosen]
    return found


def parts(layers: int, heads: int) -> list[Part | None]:
    """All, every layer, every head."""
    return [
        None,
        *((layer, None) for layer in range(layers)),
        *((layer, head) for layer in range(layers) for head in range(heads)),
    ]


def likeness(longs: Sequence[States], shorts: Sequence[States], part: Part | None) -> str:
    """Of a head: the mean and the least cosine of both states, and the mean ratio of their lengths."""
    if part is None or part[1] is None:
        return " | "
    layer, head = part
    a, b = (torch.stack([row[layer][head].flatten() for row in rows]) for rows in (longs, shorts))
    cosines, ratio = F.cosine_similarity(a, b), (a.norm(dim=1) / b.norm(dim=1)).mean()
    return f"{cosines.mean():.3f}, {cosines.min():.3f} | {ratio:.2f}"


def named(part: Part | None) -> str:
    if part is None:
        return "all"
    layer, head = part
    return f"layer {layer + 1}" + ("" if head is None else f", head {head + 1}")


def ways(run: Run, length: int, count: int) -> list[Ways]:
    """The first test programs of a length, each with its short way."""
    given, swaps = programs(run, length, range(count)), swap_tokens(run.tokenizer, run.variables)
    before, after = given.begins[:, given.values[-1]].tolist(), given.ends[:, 1::2].tolist()
    return [
        Ways([*begin, *commands], [*begin, *short_way(first, last, swaps)], end)
        for begin, commands, end, first, last in zip(
            given.begins.tolist(), given.commands.tolist(), given.ends.tolist(), before, after
        )
    ]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024])
    parser.add_argument("--programs", type=int, default=60)
    args = parser.parse_args()
    run = opened(args.run)
    model: Any = run.model
    for length in args.lengths:
        found = ways(run, length, args.programs)
        longs, shorts = [read(model, way.long) for way in found], [read(model, way.short) for way in found]
        answers = torch.tensor([way.answer for way in found])
        print(
            f"\n{length} commands, {len(found)} programs, {right(model, shorts, answers)} right after the short way\n"
        )
        print(
            "| the state of | long's in the short one: right | short's in the long one: right | cosine, least | length |"
        )
        print("|---|---|---|---|---|")
        for part in parts(model.config.num_hidden_layers, model.config.num_attention_heads):
            spoilt = right(model, [patched(short, long, part) for short, long in zip(shorts, longs)], answers)
            mended = right(model, [patched(long, short, part) for short, long in zip(shorts, longs)], answers)
            print(f"| {named(part)} | {spoilt} | {mended} | {likeness(longs, shorts, part)} |", flush=True)


if __name__ == "__main__":
    main()
