"""Answers: the frames of a trace that say its answer."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.examples import Example
from remedy.data_gen.traces.parse import ReadFrame


def answer_places(example: Example) -> list[int]:
    """The frames that say the answer, counted from the end (-1): the last, and before it that of the exception which left the
    program, if one did. Its last frame alone is a RETURN of None, as if nothing had happened. Of a program that returns nothing,
    it is the last frame that shows a state."""
    if example.answer_in_state:
        shown = [place for place, frame in enumerate(example.frames) if frame.locals is not None]
        return [shown[-1] - len(example.frames)]
    raised = example.trace.exception_frame
    found = [place - len(example.frames) for place, frame in enumerate(example.frames) if frame.number == raised]
    return [*found, -1]


def answer_text(example: Example, true: Sequence[ReadFrame], read: Sequence[ReadFrame | None]) -> str:
    """Read the written answer in the words of the true one: a value, or `name=value` for each variable; empty if there is none."""
    place = answer_places(example)[0]
    found = read[place] if len(read) >= -place else None
    if found is None:
        return ""
    if true[place].value is not None:
        return found.value or ""
    return ",".join(f"{name}={text}" for name, text in (found.locals or {}).items())
