"""Budget-aware reveals: the densest reveal of a trace that fits a number of tokens.

The order of preference, which gives up first what can be rebuilt, then what can be inferred, then what cannot be seen at all:

1. as configured;
2. the diff instead of whole states: nothing is lost, a reader can restore every value;
3. wider spacing of the diff's states, by the smallest k that fits, up to `inf`: every executed line is still written;
4. the deepest calls stepped over, as few levels as will do, with the states as dense as then fit, in the order 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from remedy.data_gen.execution.program import Event, Trace
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames, levels

T = TypeVar("T")


def densest_reveal(trace: Trace, config: RevealConfig, count: Callable[[RevealConfig], int]) -> RevealConfig | None:
    """The first reveal, in the order of preference, that takes at most `config.max_tokens` tokens; None if none does.

    `count` says how many tokens the example has under a reveal.
    """
    limit = config.max_tokens
    assert limit is not None

    def fits(reveal: RevealConfig) -> bool:
        # Every written frame costs a token at least, which rules most reveals of a long trace out without writing them.
        return len(kept_frames(trace.frames, reveal)) <= limit and count(reveal) <= limit

    if fits(config):
        return config
    diff = config.model_copy(update={"locals": "diff" if config.locals == "full" else config.locals})
    sparsest = diff.model_copy(update={"spacing": math.inf})
    if not fits(sparsest):
        deepest = max(levels(trace.frames), default=0)
        if config.call_depth is not None:
            deepest = min(deepest, config.call_depth)
        stepped = [sparsest.model_copy(update={"call_depth": depth}) for depth in range(deepest - 1, -1, -1)]
        found = None if config.answer_only else _first(stepped, fits)
        if found is None:
            return None
        sparsest = found
    reveals = sum(
        trace.frames[number].event in (Event.CALL, Event.LINE) for number in kept_frames(trace.frames, sparsest)
    )
    spaced = [sparsest.model_copy(update={"spacing": k}) for k in range(int(min(config.spacing, reveals)), reveals)]
    as_configured = config.model_copy(update={"call_depth": sparsest.call_depth})
    return _first([as_configured, *spaced, sparsest], fits)


def allows_partial_trace(config: RevealConfig) -> bool:
    """Say if calls may be stepped over, so that a program too long to be traced whole can be written all the same."""
    return config.max_tokens is not None or config.answer_only or config.call_depth is not None


def describe(config: RevealConfig) -> str:
    """A reveal in a few words, as records and reports name it."""
    depth = "" if config.call_depth is None else f", call depth {config.call_depth}"
    at = "" if config.at is None else f", at {config.at}"
    return f"{config.locals}, spacing {config.spacing:g}{at}{depth}"


def _first(choices: Sequence[T], fits: Callable[[T], bool]) -> T | None:
    low, high = 0, len(choices)
    while low < high:
        middle = (low + high) // 2
        if fits(choices[middle]):
            high = middle
        else:
            low = middle + 1
    return choices[low] if low < len(choices) else None
