"""The `cwm` formats: `<|line_sep|>LOCALS<|action_sep|>SOURCE<|frame_sep|>` for each frame, in JSON.

The prompt ends with the first frame, or, in `cwm_unseeded`, with the source. `cwm_numbered` writes line numbers beside
lines, `cwm_numbers` in their place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from remedy.data_gen.execution.program import Event, Program, Trace, Value
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.frames import Format, Rendered, WrittenFrame
from remedy.data_gen.traces.parse import Malformed, Piece, Reader, ReadFrame, json_string
from remedy.data_gen.traces.spans import Spans, source_spans, special_span
from remedy.data_gen.traces.string_encodings import Piece as ValuePiece
from remedy.data_gen.traces.string_encodings import escape, pieces

EVENT_TOKENS = {
    Event.CALL: Special.CALL_SEP,
    Event.LINE: Special.LINE_SEP,
    Event.RETURN: Special.RETURN_SEP,
    Event.EXCEPTION: Special.EXCEPTION_SEP,
}
_EVENTS = {token: event for event, token in EVENT_TOKENS.items()}


class Cwm(Format):
    """Format of `facebook/cwm`, and its variants."""

    events = True
    closes_frames = True

    def __init__(self, seeded: bool = True, numbers: Literal["", "beside", "alone"] = "") -> None:
        """Set the variant.

        `seeded`: the prompt has the first frame. `numbers`: where line numbers stand.
        """
        self.seeded = self.answers_only = seeded
        self._numbers, self.numbers_lines = numbers, bool(numbers)

    def write(
        self, trace: Trace, frames: Sequence[WrittenFrame], *, context: bool, encoding: str, answer_only: bool
    ) -> Rendered:
        spans = Spans()
        spans.special(Special.BEGIN_OF_TEXT, -1, Role.CONTEXT)
        spans.special(Special.TRACE_CONTEXT_START, -1, Role.CONTEXT)
        code = self.program(trace.program)
        frames = self.frames(trace, frames)
        spans.source(Role.CONTEXT, "\n" + code + ("" if code.endswith("\n") else "\n"), -1)
        spans.special(Special.FRAME_SEP, -1, Role.CONTEXT)
        seeded = 1 if self.seeded and frames and frames[0].number == 0 else 0
        for frame in frames[:seeded]:
            prompt_frame = Spans()
            _write(prompt_frame, frame, encoding)
            spans.extend(Span(Role.CONTEXT, span.piece, -1, span.string) for span in prompt_frame)
        written = list(frames[seeded:])
        if answer_only and written:
            _write(spans, written[0], encoding, event_given=True)
            written[0] = written[0]._replace(event=None)  # given, so no reader finds it
        else:
            for frame in written:
                _write(spans, frame, encoding)
        spans.special(Special.END_OF_TEXT, len(trace.frames))
        return Rendered(spans, written)

    def program(self, program: Program) -> str:
        if not self.numbers_lines:
            return program.code
        code = program.code if program.code.endswith("\n") else program.code + "\n"
        return "".join(f"{number} {line}\n" for number, line in enumerate(code.split("\n")[:-1], program.first_line))

    def action(self, program: Program, line: int, source: str) -> str:
        """Write a frame's ACTION; `line` counts from 1 in the program."""
        if not self.numbers_lines:
            return source
        number = program.first_line + line - 1
        return f"{number} {source}" if self._numbers == "beside" else f"{number}\n"

    def frames(self, trace: Trace, frames: Sequence[WrittenFrame]) -> Sequence[WrittenFrame]:
        """Return the frames with their source lines as written."""
        if not self.numbers_lines:
            return frames
        lines = [trace.frames[frame.number].line for frame in frames]
        return [
            frame._replace(source=self.action(trace.program, line, frame.source)) for frame, line in zip(frames, lines)
        ]

    def reader(self, answer_only: bool = False) -> Reader:
        return CwmReader(answer_only)


def _write(spans: Spans, frame: WrittenFrame, encoding: str, event_given: bool = False) -> None:
    """Write a frame.

    `event_given`: the prompt gives its event, to ask for an answer alone.
    """
    number, event, source, state, value = frame
    assert event is not None
    add = spans.append
    token = EVENT_TOKENS[event]
    add(special_span(Role.CONTEXT, token, -1) if event_given else special_span(Role.EVENT, token, number))
    if state is not None:
        spans += state_spans(state, encoding, number)
    add(special_span(Role.STRUCTURE, Special.ACTION_SEP, number))
    spans += source_spans(Role.ACTION, source, number)
    if value is not None:
        add(special_span(Role.STRUCTURE, Special.ARG_SEP, number))
        spans.text(Role.VALUE, '"', number)
        spans.value(Role.VALUE, value, encoding, number)
        spans.text(Role.VALUE, '"', number)
    add(special_span(Role.STRUCTURE, Special.FRAME_SEP, number))


def state_spans(state: Mapping[str, Value], encoding: str, number: int) -> list[Span]:
    spans = []
    text = "{"
    for name, shown in state.items():
        for piece in _entry(name, shown, encoding):
            if piece.string:
                spans += [Span(Role.STATE, text, number), Span(Role.STATE, piece.text, number, True)]
                text = ""
            else:
                text += piece.text
    return [*spans, Span(Role.STATE, text[:-2] + "}" if state else "{}", number)]


@lru_cache(maxsize=50_000)  # most values stay the same from frame to frame
def _entry(name: str, value: Value, encoding: str) -> tuple[ValuePiece, ...]:
    """Write `"NAME": "VALUE", `, cut at the value's strings."""
    before, after = ValuePiece(f'"{escape(name)}": "', False), ValuePiece('", ', False)
    parts = (before, *pieces(value, encoding), after)
    return parts if any(part.string for part in parts) else (ValuePiece("".join(part.text for part in parts), False),)


# The role of text by the separator before it; after an event, text is the state.
_ROLES: dict[Special | None, Role] = {Special.ACTION_SEP: Role.ACTION, Special.ARG_SEP: Role.VALUE}


class CwmReader(Reader):
    """Reader of frames.

    `answer_only`: the prompt gave the first frame's event.
    """

    def __init__(self, answer_only: bool = False) -> None:
        super().__init__()
        self._answer_only = answer_only
        self._open: list[list[str] | Special] = []
        """The unfinished frame: special tokens, and between them runs of text in pieces."""

    def _text(self, text: str) -> None:
        separator = next((part for part in reversed(self._open) if isinstance(part, Special)), None)
        self.roles[-1] = _ROLES.get(separator, Role.STATE)
        if self._open and isinstance(self._open[-1], list):
            self._open[-1].append(text)
        else:
            self._open.append([text])

    def _special(self, token: Special) -> None:
        if token is Special.END_OF_TEXT:
            self.ended = True
        elif token is Special.FRAME_SEP:
            pieces = [part if isinstance(part, Special) else "".join(part) for part in self._open]
            is_answer = self._answer_only and not self.frames
            self.frames.append(_answer(pieces) if is_answer else _frame(pieces))
            self._open = []
        else:
            if token in _EVENTS and not self._open:
                self.roles[-1] = Role.EVENT
            self._open.append(token)

    def _unfinished(self) -> str:
        return "a frame without its end" if self._open else ""


def _frame(written: list[Piece]) -> ReadFrame:
    first = written[0] if written else ""
    if not isinstance(first, Special) or first not in _EVENTS:
        raise Malformed("a frame that does not start with an event")
    event = _EVENTS[first]
    state, source, value = _parts(written[1:])
    if source is None:
        raise Malformed(f"a {event.value} frame without a source line")
    if event in (Event.CALL, Event.LINE):
        if value is not None:
            raise Malformed(f"a {event.value} frame with a value")
        return ReadFrame(event, source, read_locals(state) if state is not None else None)
    if state is not None:
        raise Malformed(f"a {event.value} frame with locals")
    if value is None:
        raise Malformed(f"a {event.value} frame without a value")
    return ReadFrame(event, source, None, json_string(value, "a value"))


def _answer(written: list[Piece]) -> ReadFrame:
    state, source, value = _parts(written)
    if state is not None or source is None or value is None:
        raise Malformed("an answer without its source line and value, or with locals")
    return ReadFrame(None, source, None, json_string(value, "a value"))


def _parts(written: Sequence[Piece]) -> tuple[str | None, str | None, str | None]:
    texts: list[str | None] = [None]
    separators = iter((Special.ACTION_SEP, Special.ARG_SEP))
    for piece in written:
        if isinstance(piece, str):
            texts[-1] = piece
        elif piece is not next(separators, None):
            raise Malformed(f"{piece.value} in the wrong place")
        else:
            texts.append("")
    state, source, value = (*texts, None, None)[:3]
    return state, source, value


def read_locals(text: str) -> dict[str, str]:
    """Read a STATE's names and values.

    Raises:
        Malformed: it is no JSON object of strings.
    """
    try:
        pairs = json.loads(text, object_pairs_hook=list)  # a dict would hide names that are given twice
    except (ValueError, RecursionError):
        raise Malformed("locals that are not JSON") from None
    # An array of pairs parses to the same list as an object.
    if not isinstance(pairs, list) or not text.startswith("{"):
        raise Malformed("locals that are not a JSON object")
    shown = {}
    for name, value in pairs:
        if not isinstance(value, str):
            raise Malformed("a local whose value is not a string")
        if name in shown:
            raise Malformed("a local that is given twice")
        shown[name] = value
    return shown
