"""Interface of trace formats."""

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
    """Frame as written, its values before string encoding."""

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
        """Convert the frame to what a reader returns."""
        shown = self.locals
        if shown is not None:
            texts = {name: value_text(value, encoding) for name, value in shown.items()}
        value = None if self.value is None else value_text(self.value, encoding)
        return ReadFrame(self.event, self.source, None if shown is None else texts, value)


def value_text(value: Value, encoding: str) -> str:
    """Encode a value's text, without JSON's escaping."""
    if encoding == "plain":
        return value.text
    text: str = json.loads(f'"{"".join(piece.text for piece in pieces(value, encoding))}"')
    return text


def without_empty_states(frames: Sequence[WrittenFrame]) -> list[WrittenFrame]:
    """Drop states without variables, which some formats do not write."""
    return [f._replace(locals=None) if f.locals is not None and not f.locals else f for f in frames]


class Rendered(NamedTuple):
    """Written trace."""

    spans: list[Span]
    frames: list[WrittenFrame]
    """The frames after the context, which a reader returns."""


class Format(ABC):
    """Way to write traces; FORMATS holds an instance of each."""

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

        `context`: show the program. `encoding`: of string values. `answer_only`: the last frame is the answer.
        """

    def reader(self, answer_only: bool = False) -> Reader:
        """Return a reader of what follows the context.

        Raises:
            NotImplementedError: there is no text to read.
        """
        raise NotImplementedError(f"{type(self).__name__} has no text to read")

    def read(self, written: Iterable[Piece], answer_only: bool = False) -> ReadTrace:
        """Read the frames from the pieces after the context."""
        reader = self.reader(answer_only)
        for piece in written:
            reader.feed(piece)
        return reader.trace()
