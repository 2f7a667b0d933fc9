"""Answers: the frames of a trace that say its answer, and whether what was written says the same."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import Event
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.values import same_value


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


def same_answer(example: Example, true: Sequence[ReadFrame], read: Sequence[ReadFrame | None]) -> bool:
    """Say if the written frames give the true answer: the same event with an equal value, or in a session all of the final state.

    Both are compared as they are written. Which strings are encoded is known from the truth, so a value that looks like an encoded
    string is none where the truth is a list; and an answer without a trace is one frame, not the last of several tries.
    """
    if example.reveal.answer_only and len(read) != len(true):
        return False
    places = answer_places(example)
    if len(places) == 1 and _leaves_by_exception(read) != _leaves_by_exception(true):
        return False
    return all(len(read) >= -place and _same(read[place], true[place]) for place in places)


def answer_text(example: Example, true: Sequence[ReadFrame], read: Sequence[ReadFrame | None]) -> str:
    """Read the written answer in the words of the true one: a value, or `name=value` for each variable; empty if there is none."""
    place = answer_places(example)[0]
    found = read[place] if len(read) >= -place else None
    if found is None:
        return ""
    if true[place].value is not None:
        return found.value or ""
    return ",".join(f"{name}={text}" for name, text in (found.locals or {}).items())


def _leaves_by_exception(frames: Sequence[ReadFrame | None]) -> bool:
    """Say if the trace ends by an uncaught exception, in a format that writes events. (One that a `with` on the same line holds back
    reads alike, which the truth then does too.)"""
    match frames:
        case [*_, ReadFrame(event=Event.EXCEPTION), ReadFrame(event=Event.RETURN, value="None")]:
            return True
    return False


def _same(read: ReadFrame | None, true: ReadFrame) -> bool:
    if read is None or read.event is not true.event:
        return False
    said, meant = (frame.locals if true.value is None else {"": frame.value} for frame in (read, true))
    if not said or not meant or list(said) != list(meant):
        return False
    pairs = zip(said.values(), meant.values())
    return all(text is not None and wanted is not None and same_value(text, wanted) for text, wanted in pairs)
