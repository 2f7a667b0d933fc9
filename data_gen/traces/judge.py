"""Judge a trace by its text alone: is the answer right, and how far, and to which role, is all of it right?

Needs neither a tokenizer nor a model; rewards and exported benchmarks score by it. `remedy evaluate` says the same of the same text,
and more: which token, which operation, which forcing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.frames import Format
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
        """The share of the true trace's frames that are right before the first wrong one."""
        return self.frames_right / self.frames if self.frames else float(self.valid)


def pieces(text: str) -> list[Piece]:
    """Text in which special tokens are spelled by their names, cut at them."""
    found: list[Piece] = []
    start = 0
    for match in _SPECIAL.finditer(text):
        found += [part for part in (text[start : match.start()], Special(match[0])) if part]
        start = match.end()
    return [*found, text[start:]] if start < len(text) else found


def judge(written: Sequence[Piece], true: Sequence[Piece], form: Format, answer_only: bool = False) -> TraceScore:
    """The score of what was written after a program's context, beside what should have been.

    Raises:
        ValueError: the true text does not read as a trace.
    """
    truth, found = (form.read(side, answer_only) for side in (true, written))
    if not truth.valid:
        raise ValueError(f"the true trace cannot be read: {truth.problem or 'its end is missing'}")
    wanted, shown = (_in_full(trace.frames) for trace in (truth, found))
    right = found.valid and _same_answer(shown, wanted, answer_only)
    for place, frame in enumerate(wanted):
        other = shown[place] if place < len(shown) else None
        role = Role.STRUCTURE if other is None else differs(other, frame)
        if role is not None:
            return TraceScore(right, found.valid, len(wanted), place, role)
    clean = found.valid and len(shown) == len(wanted)
    return TraceScore(right, found.valid, len(wanted), len(wanted), None if clean else Role.STRUCTURE)


def differs(written: ReadFrame, true: ReadFrame) -> Role | None:
    """The role in which a frame differs from the true one, both in full; None if it means the same. Values are compared by what
    they mean, states by their text: of what lives on, type and order matter."""
    if written == true:
        return None
    if written.event is not true.event:
        return Role.EVENT
    if written.locals != true.locals or list(written.locals or ()) != list(true.locals or ()):
        return Role.STATE
    if written.source != true.source:
        return Role.ACTION
    if written.value is None or true.value is None or not same_value(written.value, true.value):
        return Role.VALUE
    return None


def _in_full(frames: Sequence[ReadFrame]) -> list[ReadFrame]:
    return [frame for frame in restore(frames) if frame is not None]


def _same_answer(found: Sequence[ReadFrame], true: Sequence[ReadFrame], answer_only: bool) -> bool:
    """Say if the last frame, and before it that of an exception which left the program, means the same."""
    if not found or not true or (answer_only and len(found) != len(true)):
        return False
    if _raises(found) != _raises(true):
        return False
    return all(_same(found[-back], true[-back]) for back in ((1, 2) if _raises(true) else (1,)))


def _raises(frames: Sequence[ReadFrame]) -> bool:
    match frames:
        case [*_, ReadFrame(event=Event.EXCEPTION), ReadFrame(event=Event.RETURN, value="None")]:
            return True
    return False


def _same(found: ReadFrame, true: ReadFrame) -> bool:
    """Compare what two frames say: values, or all variables of a state, whose line does not matter."""
    if true.value is not None:
        return found.event is true.event and found.value is not None and same_value(found.value, true.value)
    said, meant = found.locals or {}, true.locals or {}
    return (
        found.event is true.event
        and bool(meant)
        and list(said) == list(meant)
        and all(same_value(said[name], meant[name]) for name in meant)
    )
