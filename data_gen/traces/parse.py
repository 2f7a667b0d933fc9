"""Read a trace in the `cwm` format back from what a model wrote. Model output is data: nothing here raises on any of it.

The input is pieces, text or special tokens, as a tokenizer gives them for ids: text that spells a separator is just text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Special
from remedy.data_gen.traces.reveal import UNCHANGED

_EVENTS = {
    Special.CALL_SEP: Event.CALL,
    Special.LINE_SEP: Event.LINE,
    Special.RETURN_SEP: Event.RETURN,
    Special.EXCEPTION_SEP: Event.EXCEPTION,
}

Piece = str | Special


@dataclass(frozen=True, slots=True)
class ReadFrame:
    """A frame as written: `locals` by name (None where no state is shown), `value` of a return or exception, values as text."""

    event: Event
    source: str
    locals: dict[str, str] | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """The frames up to the first malformed one, what is wrong with that (empty if nothing), and whether the end was written."""

    frames: tuple[ReadFrame, ...]
    problem: str
    ended: bool

    @property
    def valid(self) -> bool:
        return self.ended and not self.problem


class _Malformed(Exception):
    pass


def parse(pieces: Iterable[Piece]) -> ReadTrace:
    """The trace that the pieces after the context's last separator spell."""
    found: list[ReadFrame] = []
    frame: list[Piece] = []
    problem, ended = "", False
    for piece in _joined(pieces):
        if ended:
            problem = "text after the end"
            break
        if piece is Special.END_OF_TEXT:
            ended = True
        elif piece is Special.FRAME_SEP:
            try:
                found.append(_frame(frame))
            except _Malformed as error:
                problem = str(error)
                break
            frame = []
        else:
            frame.append(piece)
    if frame and not problem:
        problem = "a frame without its end"
    return ReadTrace(tuple(found), problem, ended)


def restore(frames: Sequence[ReadFrame]) -> list[ReadFrame]:
    """The frames with every `..` of a diff replaced by the value it stands for; one that stands for none is left."""
    memory: dict[str, str] = {}
    restored = []
    for frame in frames:
        if frame.event is Event.RETURN:
            memory = {}
        if frame.locals is not None:
            known = {} if frame.event is Event.CALL else memory
            shown = {n: known.get(n, v) if v == UNCHANGED.text else v for n, v in frame.locals.items()}
            frame, memory = ReadFrame(frame.event, frame.source, shown, frame.value), shown
        restored.append(frame)
    return restored


def _joined(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """The pieces with neighbouring texts joined."""
    text: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            text.append(piece)
            continue
        if text:
            yield "".join(text)
            text = []
        yield piece
    if text:
        yield "".join(text)


def _frame(pieces: list[Piece]) -> ReadFrame:
    """One frame, without its end."""
    if not pieces or pieces[0] not in _EVENTS:
        raise _Malformed("a frame that does not start with an event")
    event = _EVENTS[pieces[0]]
    before, source, value = _parts(pieces[1:])
    if source is None:
        raise _Malformed(f"a {event.value} frame without a source line")
    if event in (Event.CALL, Event.LINE):
        if value is not None:
            raise _Malformed(f"a {event.value} frame with a value")
        return ReadFrame(event, source, _locals(before) if before is not None else None)
    if before is not None:
        raise _Malformed(f"a {event.value} frame with locals")
    if value is None:
        raise _Malformed(f"a {event.value} frame without a value")
    return ReadFrame(event, source, None, _string(value))


def _parts(pieces: Sequence[Piece]) -> tuple[str | None, str | None, str | None]:
    """The texts before the action separator, after it, and after the argument separator."""
    texts: dict[Special | None, str | None] = {None: None, Special.ACTION_SEP: None, Special.ARG_SEP: None}
    at: Special | None = None
    for piece in pieces:
        if isinstance(piece, str):
            texts[at] = piece
            continue
        following = {None: Special.ACTION_SEP, Special.ACTION_SEP: Special.ARG_SEP}.get(at)
        if piece is not following:
            raise _Malformed(f"{piece.value} in the wrong place")
        at = piece
        texts[at] = ""
    return texts[None], texts[Special.ACTION_SEP], texts[Special.ARG_SEP]


def _locals(text: str) -> dict[str, str]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise _Malformed("locals that are not JSON") from None
    if not isinstance(pairs, list) or not text.startswith("{"):
        raise _Malformed("locals that are not a JSON object")
    shown = {}
    for name, value in pairs:
        if not isinstance(value, str):
            raise _Malformed("a local whose value is not a string")
        if name in shown:
            raise _Malformed("a local that is given twice")
        shown[name] = value
    return shown


def _string(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _Malformed("a value that is not JSON") from None
    if not isinstance(value, str):
        raise _Malformed("a value that is not a string")
    return value
