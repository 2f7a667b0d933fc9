"""Interface of trace formats: a format writes frames as spans, and says which frames a reader finds in them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from remedy.data_gen.execution.program import Event, Trace, Value
from remedy.data_gen.roles import Span
from remedy.data_gen.traces.parse import Piece, Reader, ReadFrame, ReadTrace
from remedy.data_gen.traces.string_encodings import pieces


class WrittenFrame(NamedTuple):
    """A frame as it is written, its values before any string encoding."""

    number: int
    """Its number in the trace."""
    event: Event | None
    """None where the format does not write it, or it is given."""
    source: str
    """The line with its newline; empty where the frame has none."""
    locals: dict[str, Value] | None
    """The variables that its STATE shows, `UNCHANGED` for `..`; None where no STATE is written."""
    value: Value | None
    """The returned or raised value."""

    def as_read(self, encoding: str = "plain") -> ReadFrame:
        """Convert the frame to what a reader finds where it is written under a string encoding."""
        shown = self.locals
        if shown is not None:
            found = {name: value_text(value, encoding) for name, value in shown.items()}
        value = None if self.value is None else value_text(self.value, encoding)
        return ReadFrame(self.event, self.source, None if shown is None else found, value)


def value_text(value: Value, encoding: str) -> str:
    """A value's text under a string encoding, as a reader gives it: without JSON's escaping."""
    if encoding == "plain":
        return value.text
    text: str = json.loads(f'"{"".join(piece.text for piece in pieces(value, encoding))}"')
    return text


def without_empty_states(frames: Sequence[WrittenFrame]) -> list[WrittenFrame]:
    """The frames as written where a state of no variables leaves no trace in the text."""
    return [f._replace(locals=None) if f.locals is not None and not f.locals else f for f in frames]


class Rendered(NamedTuple):
    """A trace that is written down."""

    spans: list[Span]
    frames: list[WrittenFrame]
    """The frames after the context: those that a reader of the rest finds."""


class Format(ABC):
    """A way to write traces down. To add one, write a subclass in a file of its own and register an instance in FORMATS."""

    events: ClassVar[bool] = False
    """It writes which event a frame is; if not, the frames it is given to write have none."""
    one_token: ClassVar[bool] = False
    """Every span is one token; there is no text to read back."""
    session: ClassVar[bool] = False
    """It writes an interactive session where the task has one, in place of a traced program."""
    hides_program: ClassVar[bool] = False
    """The program may be left out of the context."""
    numbers_lines: bool = False
    """Whether lines have their numbers, counted from the program's `first_line`."""
    closes_frames: ClassVar[bool] = False
    """Every frame ends with the special token `FRAME_SEP`, and no other place after the context has it."""
    answers_only: bool = False
    """It can ask for the answer alone, without a trace."""

    @abstractmethod
    def write(
        self, trace: Trace, frames: Sequence[WrittenFrame], *, context: bool, encoding: str, answer_only: bool
    ) -> Rendered:
        """Write the chosen frames of a trace.

        `context`: whether the program is shown. `encoding`: of string values. `answer_only`: the last frame is the answer, which
        is asked for at once.
        """

    def reader(self, answer_only: bool = False) -> Reader:
        """Reads what follows the context of a trace in this format."""
        raise NotImplementedError(f"{type(self).__name__} has no text to read")

    def read(self, written: Iterable[Piece], answer_only: bool = False) -> ReadTrace:
        """The frames that the pieces after the context spell."""
        reader = self.reader(answer_only)
        for piece in written:
            reader.feed(piece)
        return reader.trace()
