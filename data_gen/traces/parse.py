"""Read a trace back from what a model wrote, piece by piece. Model output is data: nothing here raises on any of it.

Pieces are text or special tokens, as a tokenizer gives them for ids: text that spells a separator is just text. The time is
linear in the text, however it is cut into pieces.
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
    """A frame as written, its values as text."""

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
    """Result of reading a trace's text."""

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
    """Raised by a reader's own steps, and caught in `feed`: what was written is no frame."""


class Reader(ABC):
    """Reads one trace: feed it the pieces after the context, in order, cut in any way."""

    def __init__(self) -> None:
        self.frames: list[ReadFrame] = []
        """The frames read so far."""
        self.problem = ""
        """Why reading stopped; what follows is not read."""
        self.ended = False
        """Whether the end of the text was read."""
        self.place = 0
        """The frame that the last piece belongs to, counted from 0."""
        self.roles: list[Role] = []
        """The role that each piece has where it stands, as far as that is known; a separator's after a problem."""

    def feed(self, piece: Piece) -> None:
        """Read on."""
        self.place = len(self.frames)
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
        """Return the trace read so far, if nothing follows."""
        return ReadTrace(tuple(self.frames), self.problem or self._unfinished(), self.ended)

    @abstractmethod
    def _text(self, text: str) -> None:
        """Read text, which is not empty."""

    @abstractmethod
    def _special(self, token: Special) -> None:
        """Read a special token; END_OF_TEXT sets `ended`."""

    @abstractmethod
    def _unfinished(self) -> str:
        """Say what is missing, if nothing follows; empty if nothing is."""


def json_string(text: str, what: str) -> str:
    """The string that JSON text stands for.

    Raises:
        Malformed: it is none; `what` names it in the message.
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
    """The frames with every `..` of a diff replaced by the value it stands for; one that stands for none is left.

    `past`: what stood before each of the frames in place of these ones, where other frames were fed. A frame that could not be
    read (None) shows nothing.
    """
    memory = LastShown()
    restored = []
    for place, frame in enumerate(frames):
        full = None if frame is None else memory.in_full(frame)
        restored.append(full)
        before = past[place] if past is not None else None
        shown = full if past is None else None if before is None else memory.in_full(before)
        if shown is not None:
            memory.take(shown)
    return restored


class LastShown:
    """The state that was shown last, which every `..` of a diff goes back to."""

    def __init__(self) -> None:
        self._state: Mapping[str, str] = {}

    def in_full(self, frame: ReadFrame) -> ReadFrame:
        """A frame with every `..` replaced by the value it stands for; one that stands for none is left."""
        if frame.locals is None:
            return frame
        known = {} if frame.event is Event.CALL else self._state
        shown = {n: known.get(n, v) if v == UNCHANGED.text else v for n, v in frame.locals.items()}
        return ReadFrame(frame.event, frame.source, shown, frame.value)

    def take(self, full: ReadFrame) -> None:
        """Go on after a frame in full."""
        if full.event is Event.RETURN:
            self._state = {}
        elif full.locals is not None:
            self._state = full.locals
