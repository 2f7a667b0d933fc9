"""Densest reveal of a trace that fits a number of tokens.

In order of preference: as configured; diffs instead of whole states; the smallest spacing of the diff that fits; the fewest
levels of calls stepped over, with the densest states that then fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from remedy.data_gen.execution.program import Event, Trace
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames, levels

T = TypeVar("T")


def densest_reveal(trace: Trace, config: RevealConfig, count: Callable[[RevealConfig], int]) -> RevealConfig | None:
    """Return the preferred reveal within `config.max_tokens`, or None.

    `count`: gives the example's tokens under a reveal.
    """
    limit = config.max_tokens
    assert limit is not None

    def fits(reveal: RevealConfig) -> bool:
        # A frame costs at least one token: for a long trace, this refuses most reveals without writing them.
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
        fitting = None if config.answer_only else _first(stepped, fits)
        if fitting is None:
            return None
        sparsest = fitting
    reveals = sum(
        trace.frames[number].event in (Event.CALL, Event.LINE) for number in kept_frames(trace.frames, sparsest)
    )
    spaced = [sparsest.model_copy(update={"spacing": k}) for k in range(int(min(config.spacing, reveals)), reveals)]
    as_configured = config.model_copy(update={"call_depth": sparsest.call_depth})
    return _first([as_configured, *spaced, sparsest], fits)


def allows_partial_trace(config: RevealConfig) -> bool:
    """Say if deep calls may be stepped over."""
    return config.max_tokens is not None or config.answer_only or config.call_depth is not None


def describe(config: RevealConfig) -> str:
    """Describe a reveal briefly."""
    depth = "" if config.call_depth is None else f", call depth {config.call_depth}"
    marks = "" if config.at is None else f", at {config.at}"
    return f"{config.locals}, spacing {config.spacing:g}{marks}{depth}"


def _first(sparser: Sequence[T], fits: Callable[[T], bool]) -> T | None:
    # Each choice costs at most what the one before it costs, so a binary search finds the first that fits.
    low, high = 0, len(sparser)
    while low < high:
        middle = (low + high) // 2
        if fits(sparser[middle]):
            high = middle
        else:
            low = middle + 1
    return sparser[low] if low < len(sparser) else None
