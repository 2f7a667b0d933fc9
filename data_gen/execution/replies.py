"""Check of a sandbox's replies, before anything else touches them.

A program can write to the pipe that its frames travel through, and what it writes is data: whatever is no trace of this
program becomes the outcome `forged`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from remedy.data_gen.execution.program import (
    MARKER,
    OUTCOMES,
    Event,
    Frame,
    Program,
    ProgramError,
    Trace,
    Value,
    can_be_name,
)

_REPORTED = frozenset(OUTCOMES) - {"mismatch"}
_LONG = 1 << 24
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LOCAL = rb"\[%(s)b, %(s)b, %(s)b\]" % {b"s": _STRING}
_FRAME = rb"\[%(s)b, [0-9]{1,9}, (?:null|\[(?:%(l)b(?:, %(l)b)*+)?\]), (?:null|\[%(s)b, %(s)b\])\]" % {
    b"s": _STRING,
    b"l": _LOCAL,
}
_FRAMES = re.compile(
    rb'\{"frames": \[(?:%(f)b(?:, %(f)b)*+)?\], "raised": (?:true|false), "unreadable": [0-9]{1,9}\}' % {b"f": _FRAME}
)


def read(data: bytes, program: Program) -> Trace:
    """The trace that a reply holds.

    Raises:
        ProgramError: the reported one; kind `forged` if the reply is anything else.
    """
    try:
        reply = parsed(data)
    except (ValueError, RecursionError):
        reply = "no JSON that can be read"
    return checked(reply, program)


def parsed(data: bytes) -> Any:
    """A reply as JSON. A long one has a tracer's form: in another, such as many empty lists, memory is 24 times the text.

    Raises:
        ValueError, RecursionError: it is no JSON, or none that a tracer writes.
    """
    if len(data) > _LONG and not _FRAMES.fullmatch(data):
        raise ValueError("not in the form of a trace")
    return json.loads(data)


class _Forged(Exception):
    """Caught in `checked`: what is wrong with the reply."""


def checked(reply: object, program: Program) -> Trace:
    """The trace that a reply holds.

    A reply is `{"frames": [[event, line, locals, value], ...], "raised": bool, "unreadable": count}` or
    `{"error": kind, "message": text}`. A trace is the entry's CALL, frames that nest, and as the last the entry's RETURN. Every line
    is one of the program's, by its number; CALL and LINE have locals, whose names can be names; RETURN and EXCEPTION have a value.

    Raises:
        ProgramError: the reported one; kind `forged` if the reply is anything else.
    """
    try:
        if type(reply) is not dict:
            _forged("no object")
        if set(reply) == {"error", "message"}:
            kind, message = _text(reply["error"], "the kind of an error"), _text(reply["message"], "a message")
            if kind not in _REPORTED:
                _forged("an error of no known kind")
            raise ProgramError(kind, message)
        kinds = {"frames": list, "raised": bool, "unreadable": int}
        if set(reply) != set(kinds) or any(type(reply[field]) is not kind for field, kind in kinds.items()):
            _forged("neither frames nor an error")
        frames = _frames(reply["frames"], program)
        if not 0 <= reply["unreadable"] <= sum(1 if frame.locals is None else len(frame.locals) for frame in frames):
            _forged("more values that cannot be read than there are")
        trace = Trace(program, frames, raised=reply["raised"], unreadable=reply["unreadable"])
        if trace.raised and (trace.exception_frame is None or trace.frames[-1].value != ("None", "NoneType")):
            _forged("an exception that nothing raised")
        return trace
    except _Forged as error:
        raise ProgramError("forged", f"{program.name}: the sandbox sent what no tracer writes ({error})") from None


def _forged(what: str) -> NoReturn:
    raise _Forged(what)


def _frames(replied: list[Any], program: Program) -> list[Frame]:
    lines = program.physical_lines()
    first_lines = _first_lines(program)
    read_value, read_locals = _value_reader(), _locals_reader()
    frames: list[Frame] = []
    level = 0
    for number, fields in enumerate(replied):
        if type(fields) is not list or len(fields) != 4:
            _forged("a frame that has not four fields")
        name, line, state, value = fields
        event = _EVENTS.get(name) if type(name) is str else None
        if event is None:
            _forged("an event of no known name")
        if type(line) is not int or not 1 <= line <= len(lines):
            _forged("a line that the program does not have")
        if level == 0 and (number or event is not Event.CALL):
            _forged("a frame outside the entry's")
        if event is Event.CALL:
            level += 1
        elif event is Event.RETURN:
            level -= 1
        if event is Event.CALL or event is Event.LINE:
            if value is not None:
                _forged("a value where none can be")
            frames.append(Frame(event, line, lines[line - 1], read_locals(state)))
        else:
            if state is not None:
                _forged("locals where none can be")
            frames.append(Frame(event, line, lines[line - 1], None, read_value(value)))
    if level or not frames:
        _forged("no return of the entry")
    if frames[0].line not in first_lines:
        _forged("another call than the entry's at first")
    return frames


_EVENTS = {event.value: event for event in Event}


def _first_lines(program: Program) -> set[int]:
    """The lines that an entry's CALL may show: a marked one, or, of a decorated function, its first decorator."""
    lines = enumerate(program.source_lines(), start=1)
    return {number for number, line in lines if MARKER in line or line.lstrip().startswith("@")}


def _text(given: Any, what: str) -> str:
    """Text that can be written to a file: of that type, without lone surrogates."""
    if type(given) is not str:
        _forged(f"{what} that is no text")
    if not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError:
            _forged(f"{what} with half a character")
    return given


def _value_reader() -> Callable[[Any], Value]:
    types: dict[str, str] = {}  # by far most values are of a type seen before

    def read(given: Any) -> Value:
        if type(given) is not list or len(given) != 2:
            _forged("a value that is no pair of texts")
        text, kind = given
        known = types.get(kind) if type(kind) is str else None
        if known is None:
            known = types[kind] = _text(kind, "a type")
        return Value(text if type(text) is str and text.isascii() else _text(text, "a value"), known)

    return read


def _locals_reader() -> Callable[[Any], dict[str, Value]]:
    read_value, names = _value_reader(), set[str]()

    def read(given: Any) -> dict[str, Value]:
        if type(given) is not list:
            _forged("no locals where there must be some")
        state: dict[str, Value] = {}
        for entry in given:
            if type(entry) is not list or len(entry) != 3:
                _forged("a local that is not three texts")
            name, text, kind = entry
            if type(name) is not str:
                _forged("a local whose name is no text")
            if name not in names:
                if not can_be_name(name):
                    _forged("a local whose name can be none")
                names.add(name)
            state[name] = read_value([text, kind])
        if len(state) != len(given):
            _forged("a local twice")
        return state

    return read
