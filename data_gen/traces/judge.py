"""Judge a trace by its text alone: is the answer right, and how far, and to which role, is all of it right?

Needs neither a tokenizer nor a model; rewards and exported benchmarks score by it. `remedy evaluate` says the same of the same text,
and more: which token, which operation, which forcing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from remedy.data_gen.execution.program import Event, Value
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.frames import Format, value_text
from remedy.data_gen.traces.parse import Piece, ReadFrame, restore
from remedy.data_gen.traces.values import same_value

_SPECIAL = re.compile("|".join(re.escape(special.value) for special in Special))


class TraceScore(NamedTuple):
    """A trace beside the true one. `right`: the answer; `valid`: all of it reads as a trace; `frames`: of the true trace;
    `frames_right`: those before the first that differs; `first_wrong`: the role that differs there, `structure` where a frame cannot
    be read or is missing, None if nothing differs."""

    right: bool
    valid: bool
    frames: int
    frames_right: int
    first_wrong: Role | None

    @property
    def prefix(self) -> float:
        """The share of the true trace's frames that are right before the first wrong one. What goes on after the last, or does not
        end there, is a frame more, which is wrong: only the true trace has 1."""
        goes_on = self.frames_right == self.frames and self.first_wrong is not None
        return self.frames_right / (self.frames + goes_on) if self.frames_right else float(self.first_wrong is None)


def pieces(text: str) -> list[Piece]:
    """Text in which special tokens are spelled by their names, cut at them."""
    found: list[Piece] = []
    start = 0
    for match in _SPECIAL.finditer(text):
        found += [part for part in (text[start : match.start()], Special(match[0])) if part]
        start = match.end()
    return [*found, text[start:]] if start < len(text) else found


def spells_tokens(spans: Sequence[Span]) -> bool:
    """Say if text among the spans spells a special token, as a program's string can: their text alone does not tell the two apart."""
    text = "".join(span.piece if isinstance(span.piece, str) else "\0" for span in spans)
    return _SPECIAL.search(text) is not None


def judge(
    written: Sequence[Piece],
    true: Sequence[Piece],
    form: Format,
    places: Sequence[int] = (-1,),
    answer_only: bool = False,
) -> TraceScore:
    """The score of what was written after a program's context, beside what should have been. `places`: the frames that say the
    answer, counted from the end (`eval.scoring.frames.answer_places`); the text alone does not tell them.

    Raises:
        ValueError: the true text does not read as a trace.
    """
    truth, found = (form.read(side, answer_only) for side in (true, written))
    if not truth.valid:
        raise ValueError(f"the true trace cannot be read: {truth.problem or 'its end is missing'}")
    wanted, shown = (_in_full(trace.frames) for trace in (truth, found))
    right = found.valid and same_answer(wanted, shown, places, answer_only)
    for place, frame in enumerate(wanted):
        other = shown[place] if place < len(shown) else None
        role = Role.STRUCTURE if other is None else differs(other, frame)
        if role is not None:
            return TraceScore(right, found.valid, len(wanted), place, role)
    clean = found.valid and len(shown) == len(wanted)
    return TraceScore(right, found.valid, len(wanted), len(wanted), None if clean else Role.STRUCTURE)


def differs(written: ReadFrame, true: ReadFrame) -> Role | None:
    """The role in which a frame differs from the true one, both in full; None if it means the same."""
    if same_frame(written, true):
        return None
    if written.event is not true.event:
        return Role.EVENT
    if written.locals != true.locals:
        return Role.STATE
    return Role.ACTION if written.source != true.source else Role.VALUE


def same_frame(written: ReadFrame, true: ReadFrame) -> bool:
    """Compare a frame with the true one, both in full, but for how its value is spelled: answers are compared by what they mean, and
    so are others. States are compared by their text: of what lives on, the type matters."""
    if written == true:
        return True
    if written.value is None or true.value is None or replace(written, value=true.value) != true:
        return False
    return same_value(written.value, true.value)


def same_answer(
    true: Sequence[ReadFrame], read: Sequence[ReadFrame | None], places: Sequence[int], answer_only: bool = False
) -> bool:
    """Say if the written frames give the true answer: the same event with an equal value, or in a session all of the final state.

    Both are compared as they are written. Which strings are encoded is known from the truth, so a value that looks like an encoded
    string is none where the truth is a list; and an answer without a trace is one frame, not the last of several tries.
    """
    if answer_only and len(read) != len(true):
        return False
    if len(places) == 1 and _leaves_by_exception(read) != _leaves_by_exception(true):
        return False
    return bool(places) and all(len(read) >= -place and _same(read[place], true[place]) for place in places)


def same_text(written: str, true: str, encoding: str = "plain") -> bool:
    """Compare the text of an answer, as it is written under a string encoding, with the plain one of the true answer."""
    kind = "str" if true[:1] in ("'", '"') else "list"  # any container: of what is none, no string is encoded
    return same_value(written, value_text(Value(true, kind), encoding))


def _in_full(frames: Sequence[ReadFrame]) -> list[ReadFrame]:
    return [frame for frame in restore(frames) if frame is not None]


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
