"""Why an example failed: one class each, by rules over the first frame that departs from the truth.

The rules, in order, for an example whose answer is wrong:

1. `truncated`: the true trace has more tokens than may be written, or the program runs too long to be traced.
2. `runaway`: the model left the truth and wrote on until its tokens ran out.
3. By the first frame that differs from the true one at its place, read in the order in which it is written:
   `malformed` if it cannot be read as a frame (or the trace stops there); `wrong action` if its event or, the state being
   right, its source line differs, or the trace goes on after the true end; `wrong state` if its locals differ, with the type of
   the first wrong variable's true value, or `names` if a variable is missing or made up; `wrong return` if only the returned or
   raised value differs, so that no check of states sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.execution.program import Frame
from remedy.data_gen.traces.parse import ReadFrame, ReadTrace

UNTRACED = "untraced"
"""Stands in place of a class where there is no truth to fail at: the program could not be run. Reports leave such records out."""
TOO_LONG = frozenset({"frames", "output", "time", "memory", "budget"})
"""Outcomes of programs that run, but too long."""

CLASSES = ("truncated", "runaway", "malformed", "wrong action", "wrong state", "wrong return")


class Departure(NamedTuple):
    """The first frame that differs: its place among the written frames, what differs, and for states the type of value."""

    place: int
    what: str
    value_type: str = ""


def departure(true: Sequence[ReadFrame], originals: Sequence[Frame], read: ReadTrace) -> Departure | None:
    """Where what was read first departs from the true frames, which `originals` have with the types of their values."""
    for place, frame in enumerate(true):
        if place >= len(read.frames):
            return Departure(place, "malformed")
        found = read.frames[place]
        if found == frame:
            continue
        if found.event is not frame.event:
            return Departure(place, "wrong action")
        if found.locals != frame.locals:
            return Departure(place, "wrong state", _wrong_type(frame, originals[place], found))
        return Departure(place, "wrong action" if found.source != frame.source else "wrong return")
    if len(read.frames) > len(true):
        return Departure(len(true), "wrong action")
    return None if read.valid else Departure(len(true), "malformed")


def failure_class(found: Departure | None, over_budget: bool, ran_out: bool) -> str:
    """The class of an example whose answer is wrong."""
    if over_budget:
        return "truncated"
    if ran_out:
        return "runaway"
    return found.what if found is not None else "wrong return"


def _wrong_type(true: ReadFrame, original: Frame, found: ReadFrame) -> str:
    if true.locals is None or found.locals is None or list(true.locals) != list(found.locals):
        return "names"
    wrong = next(name for name, text in true.locals.items() if found.locals[name] != text)
    assert original.locals is not None
    return original.locals[wrong].type
