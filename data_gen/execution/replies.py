"""Check of a sandbox's replies: what is no trace of the program is `forged`."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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

_REPORTED = frozenset(OUTCOMES) - {"call", "mismatch"}
_LONG = 1 << 24
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_LOCAL = rb"\[%(s)b, %(s)b, %(s)b\]" % {b"s": _STRING}
_FRAME = rb"\[%(s)b, [0-9]{1,9}, (?:null|\[(?:%(l)b(?:, %(l)b)*+)?\]), (?:null|\[%(s)b, %(s)b\])\]" % {
    b"s": _STRING,
    b"l": _LOCAL,
}
_FRAMES = re.compile(
    rb'\{"frames": \[(?:%(f)b(?:, %(f)b)*+)?\], "raised": (?:true|false), "unreadable": [0-9]{1,9}, "end": (?:null|\[%(s)b, %(s)b\])\}'
    % {b"f": _FRAME, b"s": _STRING}
)
_EVENTS = {event.value: event for event in Event}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Problem(_Strict):
    error: str
    message: str


_Reply = tuple[
    Literal["call", "line", "return", "exception"],
    Annotated[int, Field(ge=1)],
    list[tuple[str, str, str]] | None,
    tuple[str, str] | None,
]
"""A frame: event, line, locals as (name, text, type), value as (text, type)."""


class _Traced(_Strict):
    frames: list[_Reply]
    raised: bool
    unreadable: Annotated[int, Field(ge=0)]
    end: tuple[str, str] | None


class _Forged(Exception):
    """Fault of a reply."""


def _forged(what: str) -> NoReturn:
    raise _Forged(what)


def read(data: bytes, program: Program) -> Trace:
    """Read the trace in a reply, which is JSON.

    Raises:
        ProgramError: the reported one, or `forged` if the reply is anything else.
    """
    try:
        # Long replies must have a tracer's form: others, such as many empty lists, take 24 times their size to parse.
        if len(data) > _LONG and not _FRAMES.fullmatch(data):
            _forged("what is not in the form of a trace")
        if not data.startswith(b'{"error"'):
            return _trace(_Traced.model_validate_json(data), program)
        problem = _Problem.model_validate_json(data)
        if problem.error not in _REPORTED:
            _forged("an error of no known kind")
        raise ProgramError(problem.error, problem.message)
    except ValidationError:
        raise ProgramError("forged", f"{program.name}: the sandbox sent neither frames nor an error") from None
    except _Forged as error:
        raise ProgramError("forged", f"{program.name}: the sandbox sent what no tracer writes ({error})") from None


def _trace(reply: _Traced, program: Program) -> Trace:
    frames = _frames(reply.frames, program)
    if reply.unreadable > sum(1 if frame.locals is None else len(frame.locals) for frame in frames):
        _forged("more values that cannot be read than there are")
    end = None if reply.end is None else Value(*reply.end)
    trace = Trace(program, frames, raised=reply.raised, unreadable=reply.unreadable, end=end)
    if trace.raised and (trace.exception_frame is None or trace.frames[-1].value != ("None", "NoneType")):
        _forged("an exception that nothing raised")
    return trace


def _frames(replied: list[_Reply], program: Program) -> list[Frame]:
    lines = program.physical_lines()
    frames: list[Frame] = []
    names: set[str] = set()
    level = 0
    for name, line, state, value in replied:
        event = _EVENTS[name]
        if line > len(lines):
            _forged("a line that the program does not have")
        if level == 0 and (frames or event is not Event.CALL):
            _forged("a frame outside the entry's")
        level += (event is Event.CALL) - (event is Event.RETURN)
        if (state is None) == (event in (Event.CALL, Event.LINE)) or (value is None) == (state is None):
            _forged("locals or a value where none can be, or none where they must be")
        shown = None if state is None else {local: Value(text, kind) for local, text, kind in state}
        if shown is not None and state is not None:
            names.update(shown)
            if len(shown) < len(state):
                _forged("a local twice")
        frames.append(Frame(event, line, lines[line - 1], shown, None if value is None else Value(*value)))
    if not all(map(can_be_name, names)):
        _forged("a local whose name can be none")
    if level or not frames:
        _forged("no return of the entry")
    if frames[0].line not in _first_lines(program):
        _forged("another call than the entry's at first")
    return frames


def _first_lines(program: Program) -> set[int]:
    lines = enumerate(program.source_lines(), start=1)
    return {number for number, line in lines if MARKER in line or line.lstrip().startswith("@")}
