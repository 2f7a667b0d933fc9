"""Densest reveal of a trace that fits a number of tokens.

In order of preference: as configured; diffs instead of whole states; only changes; the smallest spacing that fits, up to `inf`. Then
frames without a state are left out, at a spacing that doubles up to `WIDEST`, and loops are folded at that spacing, from `MOST_ROUNDS`
rounds to one by halves. The sparsest has no state but those after loops of one round, the first and the last. In a program without
loops the spacing doubles without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from remedy.data_gen.execution.program import Event, Trace
from remedy.data_gen.traces.loops import has_loops
from remedy.data_gen.traces.reveal import RevealConfig, kept_frames, levels

T = TypeVar("T")

WIDEST = 16
"""The widest spacing before loops are folded: a wider one steps over short loops and the states after them."""
MOST_ROUNDS = 64
"""The most rounds of a folded loop."""


def densest_reveal(
    trace: Trace, config: RevealConfig, count: Callable[[RevealConfig], int], leaves_out: bool = True
) -> RevealConfig | None:
    """Return the first reveal in order of preference within `config.max_tokens`, or None.

    `count`: gives the example's tokens under a reveal. `leaves_out`: frames may be left out. The result is None too where
    the tracer stepped over the called function: only the answer is left, which `answer_only` and `call_depth` ask for.
    """
    limit = config.max_tokens
    assert limit is not None

    def fits(reveal: RevealConfig) -> bool:
        # A frame costs at least one token: for a long trace, this refuses most reveals without writing them.
        fewest = len(kept_frames(trace, reveal)[0]) if reveal.frames == "all" else 0
        return fewest <= limit and count(reveal) <= limit

    asked = config.answer_only or config.call_depth is not None
    if not asked and trace.program.calls and not any(level > 0 for level in levels(trace.frames)):
        return None
    for chain in _chains(trace, config, leaves_out):
        if fits(chain[-1]):
            return _first(chain[:-1], fits) or chain[-1]
    return None


def _chains(trace: Trace, config: RevealConfig, leaves_out: bool) -> Iterator[list[RevealConfig]]:
    """Yield reveals in order of preference. In a list each costs at most what the one before it costs, or nearly so."""

    def but(reveal: RevealConfig, **changes: float | str) -> RevealConfig:
        return reveal.model_copy(update=changes)

    yield [config]
    if config.answer_only:
        return
    contents = {"full": ("diff", "changes"), "diff": ("changes",)}.get(config.locals, ())
    sparser = [but(config, locals=content) for content in contents]
    base = [config, *sparser][-1]
    frames = [trace.frames[number] for number in kept_frames(trace, config)[0]]
    reveals = sum(frame.event in (Event.CALL, Event.LINE) for frame in frames)
    if config.frames == "all":
        sparser += [but(base, spacing=float(k)) for k in range(int(min(base.spacing, reveals)) + 1, reveals)]
        sparser.append(but(base, spacing=math.inf))
    if sparser:
        yield sparser
    if not leaves_out:
        return
    folds = has_loops(trace.program.code)
    shown = [but(base, frames="shown")]
    while (spacing := 2 * shown[-1].spacing) <= (WIDEST if folds else reveals):
        shown.append(but(shown[-1], spacing=spacing))
    yield shown
    if not folds:
        yield [but(shown[-1], spacing=math.inf)]
        return
    rounds = [MOST_ROUNDS >> place for place in range(MOST_ROUNDS.bit_length())]
    folded = [but(shown[-1], loops=k) for k in rounds if config.loops is None or k < config.loops]
    if folded:
        yield folded
    yield [but(shown[-1], loops=1, spacing=math.inf)]


def allows_partial_trace(config: RevealConfig) -> bool:
    """Say if a program may be traced without its deep calls."""
    return config.max_tokens is not None or config.answer_only or config.call_depth is not None


def describe(config: RevealConfig) -> str:
    depth = "" if config.call_depth is None else f", call depth {config.call_depth}"
    marks = "" if config.at is None else f", at {config.at}"
    frames = "" if config.frames == "all" else f", frames {config.frames}"
    loops = "" if config.loops is None else f", loops {config.loops}"
    return f"{config.locals}, spacing {config.spacing:g}{marks}{depth}{frames}{loops}"


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
