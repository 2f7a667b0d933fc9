"""Frames as a model writes them, from tokens as they come: each is known once it is closed, and what it means by those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.parse import LastShown, ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.control_flow.evaluator.contradiction import Check
from remedy.eval.decoding.protocol import FREELY, Held
from remedy.eval.records.generations import token_texts
from remedy.eval.view.model import Block, Token
from remedy.messages import cut
from remedy.models.tokenizer import TraceTokenizer

LONGEST = 240
"""Characters of a value that a line shows."""


class ModelFrame(NamedTuple):
    """One frame that a model wrote, or what it wrote after the last."""

    number: int
    """Its place among the written frames, counted from 0; one that the prompt gives is none of them."""
    tokens: tuple[Token, ...]
    read: ReadFrame | None = None
    """What it says; None: it is no frame, or the end."""
    problem: str = ""
    """Why it is no frame."""
    full: ReadFrame | None = None
    """What it says with every `..` spelled out."""
    changed: Mapping[str, str] = {}
    """Of its state, the variables that the call has not shown with these values before."""
    contradiction: str = ""
    """What the states before it lead to, where that is something else; or that the program never comes here."""
    wrong: bool = False
    """Where the truth is known: whether it is the first frame that differs."""

    @property
    def is_end(self) -> bool:
        """Say if it is the end of the text, after the last frame."""
        return self.read is None and not self.problem

    @property
    def label(self) -> str:
        """Name its kind in a word."""
        if self.read is None:
            return "unread" if self.problem else "end"
        return self.read.event.value if self.read.event is not None else "frame"

    def block(self, number: int) -> Block:
        """The frame to look at. `number`: its own in the trace."""
        faults = (
            f"no frame: {self.problem}" if self.problem else "",
            "first error: the truth differs from here on" if self.wrong else "",
            self.contradiction,
        )
        return Block(
            number,
            "end" if self.is_end else f"frame {number}",
            tuple(token._replace(frame=number) for token in self.tokens),
            first_error=self.wrong,
            shows=", ".join(f"{name} = {cut(text, LONGEST)}" for name, text in self.changed.items()),
            marks=tuple(filter(None, faults)),
        )


class FrameStream:
    """Tokens to frames, each as soon as it is closed."""

    def __init__(self, tokenizer: TraceTokenizer, format: str, answer_only: bool = False) -> None:
        self._tokenizer = tokenizer
        self._form = FORMATS[format]
        self._answer_only = answer_only
        self._reader = self._form.reader(answer_only)
        self._open: list[_Token] = []
        self._closed = 0

    @property
    def ended(self) -> bool:
        """Say if the end was written, after frames that can all be read."""
        return self._reader.trace().valid

    def take(self, token: int, logprob: float, held: Held = FREELY) -> list[ModelFrame]:
        """The frames that one more token closes."""
        for piece in self._tokenizer.pieces([token]):
            self._reader.feed(piece)
        self._open.append(_Token(token, logprob, held, self._reader.place, len(self._reader.roles)))
        return [self._frame(number) for number in range(self._closed, len(self._reader.frames))]

    def rest(self) -> list[ModelFrame]:
        """Return the text after the last frame: the end, or what is no frame."""
        return [self._frame(self._closed)] if self._open else []

    def _frame(self, number: int) -> ModelFrame:
        last = number == len(self._reader.frames)
        # In a session a text may seem to begin a command, and turn out to go on with a value: frames are stretches all the same.
        stop = max((at for at, one in enumerate(self._open, start=1) if last or one.place <= number), default=0)
        mine, self._open = self._open[:stop], self._open[stop:]
        self._closed = number + 1
        ids = [one.id for one in mine]
        tokens = tuple(
            Token(
                one.id,
                text,
                # The role of a token may be known only once what follows it is read.
                self._reader.roles[one.pieces - 1] if one.pieces else Role.STRUCTURE,
                number,
                supervised=not one.held.certain,
                special=self._tokenizer.is_special(one.id),
                logprob=None if one.held.certain else one.logprob,
                cut=one.held.cut,
            )
            for one, text in zip(mine, token_texts(self._tokenizer, ids))
        )
        problem = self._reader.trace().problem or ("" if self._reader.ended else "the end is missing") if last else ""
        return ModelFrame(number, tokens, None if last else self._read(number, ids), problem)

    def _read(self, number: int, ids: Sequence[int]) -> ReadFrame:
        """The frame, read in one piece: a character may lie in several tokens."""
        asked = self._answer_only and number == 0
        found = self._form.read([*self._tokenizer.pieces(ids), Special.END_OF_TEXT], asked)
        return found.frames[0] if found.valid and len(found.frames) == 1 else self._reader.frames[number]


class _Token(NamedTuple):
    """A token of a frame that is not closed: `place` is that frame's, and `pieces` were read with it."""

    id: int
    logprob: float
    held: Held
    place: int
    pieces: int


class Following:
    """Meaning of frames after those before them. `check`: follows the program's control flow, where that can be done."""

    def __init__(self, check: Check | None = None) -> None:
        self._check = check
        self._memory = LastShown()
        self._calls: list[Mapping[str, str]] = [{}]
        """What each call that has not returned has shown last."""

    def take(self, frame: ModelFrame) -> ModelFrame:
        """The next frame, with what follows from those before it."""
        if frame.read is None:
            against = self._contradiction(None) if frame.is_end else ""
            return frame._replace(contradiction=against)
        full = self._memory.in_full(frame.read)
        self._memory.take(full)
        return frame._replace(full=full, changed=self._changed(full), contradiction=self._contradiction(full))

    def _changed(self, full: ReadFrame) -> Mapping[str, str]:
        if full.event is Event.CALL:
            self._calls.append({})
        before, now = self._calls[-1], full.locals
        if full.event is Event.RETURN and len(self._calls) > 1:
            self._calls.pop()
        if now is None:
            return {}
        self._calls[-1] = {**before, **now}
        return {name: value for name, value in now.items() if before.get(name) != value}

    def _contradiction(self, full: ReadFrame | None) -> str:
        if self._check is None:
            return ""
        found = self._check.found
        before, was_outside = len(found.contradictions), found.outside is not None
        self._check.take(full)
        if found.outside is not None:
            return "" if was_outside else "the program cannot come here"
        if len(found.contradictions) == before:
            return ""
        expected = sorted(_said(event, source) for event, source in found.contradictions[-1].expected)
        return f"the state written before it leads to {' or '.join(expected)}"


def _said(event: Event | None, source: str) -> str:
    return "the end" if event is None else f"{event.value} {source.strip()!r}"
