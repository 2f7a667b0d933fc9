"""Readers of traces that a model wrote, which raise on nothing.

Text that spells a separator is just text. The time is linear, however the text is cut.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remedy.data_gen.execution.program import UNCHANGED, Event
from remedy.data_gen.roles import Role, Special

Piece = str | Special


@dataclass(frozen=True, slots=True)
class ReadFrame:
    """Frame as read, its values as text."""

    event: Event | None
    """None where it is not written."""
    source: str
    """The line with its newline; empty where the frame has none."""
    locals: dict[str, str] | None = None
    """The variables that are shown; None where no state is."""
    value: str | None = None
    """The value of a return or exception."""


@dataclass(frozen=True, slots=True)
class ReadTrace:
    """Result of reading a trace."""

    frames: tuple[ReadFrame, ...]
    """The frames up to the first malformed one."""
    problem: str
    """What is wrong with that one; empty if nothing is."""
    ended: bool
    """Whether the end was written."""

    @property
    def valid(self) -> bool:
        return self.ended and not self.problem


class Malformed(Exception):
    """Error of a reader's step."""


class Reader(ABC):
    """Reader of one trace, fed the pieces after its context."""

    def __init__(self) -> None:
        self.frames: list[ReadFrame] = []
        """The frames read so far."""
        self.problem = ""
        """Why reading stopped; what follows is not read."""
        self.ended = False
        """Whether the end of the text was read."""
        self.frame_number = 0
        """The frame that the last piece belongs to, counted from 0."""
        self.roles: list[Role] = []
        """The role that each piece has where it stands, as far as that is known; a separator's after a problem."""

    def feed(self, piece: Piece) -> None:
        self.frame_number = len(self.frames)
        self.roles.append(Role.STRUCTURE)
        if self.problem or not piece:
            return
        if self.ended:
            self.problem = "text after the end"
            return
        try:
            if isinstance(piece, str):
                self._text(piece)
            else:
                self._special(piece)
        except Malformed as error:
            self.problem = str(error)

    def trace(self) -> ReadTrace:
        """Return the trace read so far, as if nothing followed."""
        return ReadTrace(tuple(self.frames), self.problem or self._unfinished(), self.ended)

    @abstractmethod
    def _text(self, text: str) -> None:
        """Read text that is not empty."""

    @abstractmethod
    def _special(self, token: Special) -> None:
        """Read a special token; END_OF_TEXT sets `ended`."""

    @abstractmethod
    def _unfinished(self) -> str:
        """Name what is missing if nothing follows; "" if nothing is."""


def json_string(text: str, what: str) -> str:
    """Return the string that JSON text stands for.

    Raises:
        Malformed: it is no string; `what` names it.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(f"{what} that is not JSON") from None
    if not isinstance(value, str):
        raise Malformed(f"{what} that is not a string")
    return value


def restore(
    frames: Sequence[ReadFrame | None], past: Sequence[ReadFrame | None] | None = None
) -> list[ReadFrame | None]:
    """Replace every `..` of a diff by its value, if it has one.

    `past`: what the model saw, if it differs. Unreadable frames are None.
    """
    memory = LastShown()
    restored = []
    for number, frame in enumerate(frames):
        full = None if frame is None else memory.in_full(frame)
        restored.append(full)
        seen = past[number] if past is not None else None
        shown = full if past is None else None if seen is None else memory.in_full(seen)
        if shown is not None:
            memory.take(shown)
    return restored


class LastShown:
    """State last shown, to which `..` refers."""

    def __init__(self) -> None:
        self._state: Mapping[str, str] = {}

    def in_full(self, frame: ReadFrame) -> ReadFrame:
        """Replace every `..` of a frame by its value."""
        if frame.locals is None:
            return frame
        # A CALL shows its new variables in full, so a `..` there refers to nothing.
        known = {} if frame.event is Event.CALL else self._state
        shown = {name: known.get(name, text) if text == UNCHANGED.text else text for name, text in frame.locals.items()}
        return ReadFrame(frame.event, frame.source, shown, frame.value)

    def take(self, full: ReadFrame) -> None:
        if full.event is Event.RETURN:
            self._state = {}
        elif full.locals is not None:
            self._state = full.locals
