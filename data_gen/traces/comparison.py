"""Score of a trace by its text alone, for rewards and exported benchmarks."""

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
    """Comparison of a trace with the true one.

    `valid`: the text reads as a trace. `frames`: in the true trace. `frames_right`: before the first difference.
    `first_wrong`: the role there, or None; `structure` if a frame is unreadable or missing.
    """

    right: bool
    valid: bool
    frames: int
    frames_right: int
    first_wrong: Role | None

    @property
    def prefix(self) -> float:
        """Return the share of the true frames before the first wrong one.

        Text after the last is a wrong frame.
        """
        goes_on = self.frames_right == self.frames and self.first_wrong is not None
        return self.frames_right / (self.frames + goes_on) if self.frames_right else float(self.first_wrong is None)


def pieces(text: str) -> list[Piece]:
    """Cut text at the names of special tokens."""
    parts: list[Piece] = []
    start = 0
    for match in _SPECIAL.finditer(text):
        parts += [part for part in (text[start : match.start()], Special(match[0])) if part]
        start = match.end()
    return [*parts, text[start:]] if start < len(text) else parts


def spells_tokens(spans: Sequence[Span]) -> bool:
    """Say if text among the spans spells a special token."""
    text = "".join(span.piece if isinstance(span.piece, str) else "\0" for span in spans)
    return _SPECIAL.search(text) is not None


def compare_traces(
    written: Sequence[Piece],
    true: Sequence[Piece],
    form: Format,
    places: Sequence[int] = (-1,),
    answer_only: bool = False,
) -> TraceScore:
    """Score a written trace against the true one.

    `places`: frames that hold the answer, counted from the end.

    Raises:
        ValueError: the true text does not read as a trace.
    """
    expected, read = (form.read(side, answer_only) for side in (true, written))
    if not expected.valid:
        raise ValueError(f"the true trace cannot be read: {expected.problem or 'its end is missing'}")
    true_frames, frames = (_in_full(trace.frames) for trace in (expected, read))
    right = read.valid and same_answer(true_frames, frames, places, answer_only)
    for number, frame in enumerate(true_frames):
        counterpart = frames[number] if number < len(frames) else None
        role = Role.STRUCTURE if counterpart is None else differs(counterpart, frame)
        if role is not None:
            return TraceScore(right, read.valid, len(true_frames), number, role)
    complete = read.valid and len(frames) == len(true_frames)
    return TraceScore(right, read.valid, len(true_frames), len(true_frames), None if complete else Role.STRUCTURE)


def differs(written: ReadFrame, true: ReadFrame) -> Role | None:
    """Return the role in which two full frames differ, or None."""
    if same_frame(written, true):
        return None
    if written.event is not true.event:
        return Role.EVENT
    if written.locals != true.locals:
        return Role.STATE
    return Role.ACTION if written.source != true.source else Role.VALUE


def same_frame(written: ReadFrame, true: ReadFrame) -> bool:
    """Compare two full frames: values by meaning, states by text."""
    if written == true:
        return True
    if written.value is None or true.value is None or replace(written, value=true.value) != true:
        return False
    return same_value(written.value, true.value)


def same_answer(
    true: Sequence[ReadFrame], read: Sequence[ReadFrame | None], places: Sequence[int], answer_only: bool = False
) -> bool:
    """Say if the frames give the true answer.

    That is an event with an equal value, or the final state; values are compared as encoded. An answer without a trace must
    be a single frame.
    """
    if answer_only and len(read) != len(true):
        return False
    # An exception that a `with` on the same line suppresses reads alike, but then in the true trace too.
    if len(places) == 1 and _leaves_by_exception(read) != _leaves_by_exception(true):
        return False
    return bool(places) and all(len(read) >= -number and _same(read[number], true[number]) for number in places)


def same_text(written: str, true: str, encoding: str = "plain") -> bool:
    """Compare an encoded answer with the true one in plain text."""
    kind = "str" if true[:1] in ("'", '"') else "list"  # any container: of what is none, no string is encoded
    return same_value(written, value_text(Value(true, kind), encoding))


def _in_full(frames: Sequence[ReadFrame]) -> list[ReadFrame]:
    return [frame for frame in restore(frames) if frame is not None]


def _leaves_by_exception(frames: Sequence[ReadFrame | None]) -> bool:
    match frames:
        case [*_, ReadFrame(event=Event.EXCEPTION), ReadFrame(event=Event.RETURN, value="None")]:
            return True
    return False


def _same(read: ReadFrame | None, true: ReadFrame) -> bool:
    if read is None or read.event is not true.event:
        return False
    texts, true_texts = (frame.locals if true.value is None else {"": frame.value} for frame in (read, true))
    if not texts or not true_texts or list(texts) != list(true_texts):
        return False
    pairs = zip(texts.values(), true_texts.values())
    return all(text is not None and true_text is not None and same_value(text, true_text) for text, true_text in pairs)
