"""Write a trace down as spans: the `cwm`, `repl` and `symbolic` formats.

To add a format, write a function `(trace, steps, context, encoding) -> spans` and register it in FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from remedy.data_gen.execution.program import Event, Frame, Trace, Value
from remedy.data_gen.registry import Registry
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.reveal import RevealConfig, Shown, kept_frames, reveal
from remedy.data_gen.traces.string_encodings import Piece, escape, pieces, source_pieces

_EVENT_TOKENS = {
    Event.CALL: Special.CALL_SEP,
    Event.LINE: Special.LINE_SEP,
    Event.RETURN: Special.RETURN_SEP,
    Event.EXCEPTION: Special.EXCEPTION_SEP,
}


class Step(NamedTuple):
    """A frame that is written, its number in the trace, and the state it shows, if any."""

    number: int
    frame: Frame
    state: Shown | None


def render(
    trace: Trace,
    format: str = "cwm",
    config: RevealConfig | None = None,
    *,
    context: bool = True,
    strings: str = "plain",
    seed: int = 0,
) -> list[Span]:
    """The trace as spans.

    `context`: whether the program precedes the trace (the `cwm` format always has it). `strings`: an encoding's name.
    `seed`: chooses variables of reveals of one variable at random.
    """
    config = config or RevealConfig()
    numbers = kept_frames(trace.frames, config)
    frames = trace.frames if len(numbers) == len(trace.frames) else [trace.frames[number] for number in numbers]
    steps = list(map(Step, numbers, frames, reveal(frames, config, seed)))
    return FORMATS[format](trace, steps, context, strings)


class _Spans(list[Span]):
    """A list of spans that joins neighbouring text of one kind, so that tokenizers see whole pieces."""

    def text(self, role: Role, text: str, frame: int, string: bool = False) -> None:
        if not text:
            return
        if self:
            last = self[-1]
            if isinstance(last.piece, str) and last.role is role and last.frame == frame and last.string == string:
                self[-1] = Span(role, last.piece + text, frame, string)
                return
        self.append(Span(role, text, frame, string))

    def special(self, token: Special, frame: int, role: Role = Role.STRUCTURE) -> None:
        self.append(_special(role, token, frame))

    def source(self, role: Role, text: str, frame: int) -> None:
        self.extend(_source(role, text, frame))

    def value(self, role: Role, value: Value, encoding: str, frame: int) -> None:
        for piece in pieces(value, encoding):
            self.text(role, piece.text, frame, piece.string)


# Separators and source lines come back in example after example at the same frame numbers: those spans are made once.


@lru_cache(maxsize=20_000)
def _special(role: Role, token: Special, frame: int) -> Span:
    return Span(role, token, frame)


@lru_cache(maxsize=50_000)
def _source(role: Role, text: str, frame: int) -> tuple[Span, ...]:
    return tuple(Span(role, piece.text, frame, piece.string) for piece in source_pieces(text))


@lru_cache(maxsize=50_000)
def _entry(name: str, value: Value, encoding: str) -> tuple[Piece, ...]:
    """`"NAME": "VALUE", ` cut at the value's strings; most values stay the same from frame to frame."""
    before, after = Piece(f'"{escape(name)}": "', False), Piece('", ', False)
    parts = (before, *pieces(value, encoding), after)
    return parts if any(part.string for part in parts) else (Piece("".join(part.text for part in parts), False),)


def _cwm(trace: Trace, steps: list[Step], context: bool, encoding: str) -> list[Span]:
    """The code world model's own format: prompt, then one frame after another.

    Where the answer comes at once, the separator of its frame is given too: it says that no trace is wanted.
    """
    spans = _Spans()
    spans.special(Special.BEGIN_OF_TEXT, -1, Role.CONTEXT)
    spans.special(Special.TRACE_CONTEXT_START, -1, Role.CONTEXT)
    code = trace.program.code
    spans.source(Role.CONTEXT, "\n" + code + ("" if code.endswith("\n") else "\n"), -1)
    spans.special(Special.FRAME_SEP, -1, Role.CONTEXT)
    direct = len(steps) == 2 and steps[1].number > 1
    for number, frame, state in steps:
        if number == 0:  # the seeded first frame is part of the prompt
            seeded = _Spans()
            _cwm_frame(seeded, frame, state, encoding, 0)
            spans.extend(Span(Role.CONTEXT, span.piece, -1, span.string) for span in seeded)
            continue
        start = len(spans)
        _cwm_frame(spans, frame, state, encoding, number)
        if direct:
            spans[start] = Span(Role.CONTEXT, spans[start].piece)
    spans.special(Special.END_OF_TEXT, len(trace.frames))
    return spans


def _cwm_frame(spans: _Spans, frame: Frame, state: Shown | None, encoding: str, number: int) -> None:
    add = spans.append
    add(_special(Role.STRUCTURE, _EVENT_TOKENS[frame.event], number))
    if state is not None:
        text = "{"
        for name, value in state.items():
            for piece in _entry(name, value, encoding):
                if piece.string:
                    add(Span(Role.STATE, text, number))
                    add(Span(Role.STATE, piece.text, number, True))
                    text = ""
                else:
                    text += piece.text
        add(Span(Role.STATE, text[:-2] + "}" if state else "{}", number))
    add(_special(Role.STRUCTURE, Special.ACTION_SEP, number))
    spans += _source(Role.ACTION, frame.source, number)
    if frame.value is not None:
        add(_special(Role.STRUCTURE, Special.ARG_SEP, number))
        spans.text(Role.VALUE, '"', number)
        spans.value(Role.VALUE, frame.value, encoding, number)
        spans.text(Role.VALUE, '"', number)
    add(_special(Role.STRUCTURE, Special.FRAME_SEP, number))


def _repl(trace: Trace, steps: list[Step], context: bool, encoding: str) -> list[Span]:
    """A Python session: `>>> COMMAND` lines, and reveals `>>> print('a', a)` answered by `a 2`.

    A reveal stands before the command whose frame it belongs to. The newline that ends a command or an answer is STRUCTURE,
    which is how a decoder knows that a written one is complete.
    """
    spans = _Spans()
    spans.special(Special.BEGIN_OF_TEXT, -1, Role.CONTEXT)
    if trace.setup:
        spans.text(Role.CONTEXT, "".join(f">>> {line}\n" for line in trace.setup), -1)
        if context:
            spans.text(Role.CONTEXT, "".join(f">>> {frame.source}" for frame in trace.frames if frame.source), -1)
    elif context:
        spans.source(Role.CONTEXT, trace.program.code, -1)
    spans.special(Special.FRAME_SEP, -1, Role.CONTEXT)
    for number, frame, state in steps:
        for name, value in (state or {}).items():
            spans.text(Role.QUERY, f">>> print({name!r}, {name})", number)
            spans.text(Role.STRUCTURE, "\n", number)
            spans.text(Role.STATE, f"{name} ", number)
            spans.value(Role.STATE, value, encoding, number)
            spans.text(Role.STRUCTURE, "\n", number)
        if frame.source:
            spans.source(Role.ACTION, f">>> {frame.source}"[:-1], number)
            spans.text(Role.STRUCTURE, "\n", number)
        if frame.value is not None:
            spans.value(Role.VALUE, frame.value, encoding, number)
            spans.text(Role.STRUCTURE, "\n", number)
    spans.special(Special.END_OF_TEXT, len(trace.frames))
    return spans


def _symbolic(trace: Trace, steps: list[Step], context: bool, encoding: str) -> list[Span]:
    """The classic state-tracking form: one token per variable, value and command; every span is one token.

    A reveal is a query (the variable's name, a QUERY) answered by a value (STATE).
    """
    spans = [Span(Role.CONTEXT, Special.BEGIN_OF_TEXT)]
    for line in trace.setup:
        spans.extend(Span(Role.CONTEXT, piece) for piece in line.split(" = "))
    if context:
        lines = [f.source for f in trace.frames if f.source] if trace.setup else trace.program.physical_lines()
        spans.extend(Span(Role.CONTEXT, line.rstrip("\n")) for line in lines if line.strip())
    spans.append(Span(Role.CONTEXT, Special.FRAME_SEP))
    for number, frame, state in steps:
        for name, value in (state or {}).items():
            spans.append(Span(Role.QUERY, name, number))
            spans.append(_one_token(Role.STATE, value, encoding, number))
        if frame.source:
            spans.append(Span(Role.ACTION, frame.source.rstrip("\n"), number))
        if frame.value is not None:
            spans.append(_one_token(Role.VALUE, frame.value, encoding, number))
    spans.append(Span(Role.STRUCTURE, Special.END_OF_TEXT, len(trace.frames)))
    return spans


def _one_token(role: Role, value: Value, encoding: str, number: int) -> Span:
    return Span(role, "".join(piece.text for piece in pieces(value, encoding)), number, value.is_string)


FORMATS: Registry[Callable[[Trace, list[Step], bool, str], list[Span]]] = Registry("trace format")
FORMATS.update({"cwm": _cwm, "repl": _repl, "symbolic": _symbolic})
