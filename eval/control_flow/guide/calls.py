"""Calls: of functions of the program, and of Python's own."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.guide import builtins
from remedy.eval.control_flow.guide.builtins import sources
from remedy.eval.control_flow.guide.iteration import items_of, unnamed
from remedy.eval.control_flow.guide.line import Line, Lost
from remedy.eval.control_flow.guide.methods import call_method, may_change
from remedy.eval.control_flow.guide.operators import Raises, Unsure
from remedy.eval.control_flow.guide.readers import finish, go_on, read_by, sort
from remedy.eval.control_flow.guide.values import (
    UNKNOWN,
    Builtin,
    Data,
    Frame,
    Function,
    Generator,
    Mapped,
    Mark,
    Math,
    Method,
    Module,
    Reading,
    Value,
)
from remedy.eval.control_flow.guide.way import Way, change, changed
from remedy.eval.control_flow.known import QUIET_BUILTINS
from remedy.eval.control_flow.moves import Point


def call(line: Line, way: Way, at: int) -> None:
    """Evaluate a CALL."""
    one = line.code.instructions[at]
    arguments = way.take(one.arg)
    first, second = way.take(2)
    callee = second if first is Mark.NULL else first
    if first is not Mark.NULL:
        arguments = [second, *arguments]
    elif isinstance(callee, Method):
        callee = UNKNOWN  # it is not known of what
    keywords = _keywords(line.code.instructions, at)
    known = line.effects[at].calls
    number = callee.code if isinstance(callee, Function) else known
    if number is not None:
        _function(line, way, at, number, arguments, keywords)
    elif isinstance(callee, Method):
        _method(line, way, at, callee.name, arguments, keywords)
    elif isinstance(callee, Math):
        _math(line, way, at, callee.name, arguments, keywords)
    elif isinstance(callee, Builtin):
        _builtin(line, way, at, callee.name, arguments, keywords)
    else:
        finish(line, way, at, None)


def call_with_star(line: Line, way: Way, at: int) -> None:
    """Evaluate a CALL_FUNCTION_EX, whose arguments are a tuple and perhaps a dict: which function it is may be known, they are not."""
    effect = line.effects[at]
    arguments, *_ = way.take(1 + (line.code.instructions[at].arg & 1))
    callee = way.take(2)[1]
    number = callee.code if isinstance(callee, Function) else effect.calls
    if number is None:
        finish(line, way, at, None)
        return
    if effect.runs_escaped and (line.moves.functions or line.moves.generators) and not isinstance(arguments, Data):
        raise Lost  # what `*` stands before may run some of it before the call
    line.may_raise(way, at)
    if line.moves.codes[number].runs_later:
        finish(line, way, at, None)
    else:
        line.enter(way, at, number)


def came_back(line: Line, way: Way, frame: Frame) -> None:
    """What an instruction called, resumed or closed has come back."""
    at, reading = frame.at, frame.reading
    effect, one = line.effects[at], line.code.instructions[at]
    if reading is not None:
        go_on(line, way, frame, reading)
    elif one.op == "POP_TOP" and frame.point is Point.CLOSED:
        line.done(way, at)
    elif one.op == "FOR_ITER" and effect.reads is not None:
        way.pop()
        if frame.point is Point.YIELDED:
            if frame.left is None:
                raise Lost
            way.stack += [Generator(frame.left), frame.came]
            line.done(way, at)
        else:
            if effect.reads in line.moves.effects.names.returning:
                raise Lost
            line.edge(way, at, one.target)
    elif one.op not in ("CALL", "CALL_FUNCTION_EX") or frame.point is not Point.RETURNED:
        raise Lost
    elif effect.calls is not None:
        way.stack.append(frame.came)
        line.done(way, at)
    else:
        finish(line, way, at, None)


def _keywords(instructions: Sequence[Instruction], at: int) -> tuple[str, ...]:
    before = [one for one in instructions[max(at - 2, 0) : at] if one.op == "KW_NAMES"]
    return tuple(before[-1].name.split()) if before else ()


def _function(line: Line, way: Way, at: int, number: int, arguments: list[Value], keywords: Sequence[str]) -> None:
    code = line.moves.codes[number]
    by_position, names = len(arguments) - len(keywords), set(code.parameters[: code.positional])
    exact = {*code.parameters[:by_position], *keywords} == names == set(code.parameters)
    if not (exact and by_position + len(keywords) == code.positional):
        line.may_raise(way, at)
    given = arguments[0] if arguments else UNKNOWN
    if not code.runs_later:
        line.enter(way, at, number, None, given)
        return
    if not code.is_generator:
        finish(line, way, at, None)
        return
    reads = code.parameters[:1] == (".0",)
    known = {".0": unnamed(given, None, way.locals)} if reads else {}
    frame = Frame(number, code.start, Point.RUN, (), True, known, frozenset())
    finish(line, way, at, Generator(frame))


def _builtin(line: Line, way: Way, at: int, name: str, arguments: list[Value], keywords: Sequence[str]) -> None:
    if not keywords and name in ("map", "filter") and len(arguments) == 2 and isinstance(arguments[0], Function):
        _map(line, way, at, name, arguments[0].code, arguments[1])
        return
    if len(arguments) == 1 and not keywords and isinstance(arguments[0], Generator | Mapped):
        read_by(line, way, at, Reading(name, arguments[0]))
        return
    key = _key(arguments, keywords)
    if name in ("sorted", "min", "max") and isinstance(key, Function) and len(arguments) - len(keywords) == 1:
        sort(line, way, at, name, key.code, arguments, keywords)
        return
    try:
        result = builtins.call(name, arguments, keywords)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        if name in QUIET_BUILTINS and not (line.effects[at].runs_escaped and line.moves.functions):
            line.may_raise(way, at)
            finish(line, way, at, UNKNOWN)
        else:
            finish(line, way, at, None)
        return
    finish(line, way, at, result)


def _key(arguments: list[Value], keywords: Sequence[str]) -> Value | None:
    if "key" not in keywords:
        return None
    return arguments[len(arguments) - len(keywords) + list(keywords).index("key")]


def _map(line: Line, way: Way, at: int, name: str, function: int, read: Value) -> None:
    try:
        result: Value = Mapped(function, items_of(read), sources(read), name == "filter")
    except (Raises, Unsure):
        result = UNKNOWN
        line.may_raise(way, at)
    if line.moves.codes[function].runs_later:
        result = UNKNOWN
    finish(line, way, at, result)


def _method(line: Line, way: Way, at: int, name: str, arguments: list[Value], keywords: Sequence[str]) -> None:
    receiver, *rest = arguments
    if isinstance(receiver, Module):
        _math(line, way, at, name, rest, keywords)
        return
    owner = receiver.name if isinstance(receiver, Builtin) else None
    if rest and isinstance(rest[0], Data) and type(rest[0].value).__name__ == owner:
        receiver, *rest = rest
    if not isinstance(receiver, Data) or name in line.moves.effects.names.stored_attributes:
        finish(line, way, at, None)
        return
    if len(rest) == 1 and not keywords and isinstance(rest[0], Generator | Mapped):
        kinds = {"join": (str,), "extend": (list,), "update": (set, dict)}
        if type(receiver.value) in kinds.get(name, ()):
            read_by(line, way, at, Reading(name, rest[0], (), (receiver,)))
            return
    if type(receiver.value) is list and name == "sort" and isinstance(_key(rest, keywords), Function):
        key = _key(rest, keywords)
        assert isinstance(key, Function)
        change(way, receiver)
        sort(line, way, at, "sort", key.code, [receiver, *rest], keywords)
        return
    changes = may_change(name, receiver)
    try:
        result, after = call_method(receiver, name, rest, keywords)
    except Raises:
        if changes:
            change(way, receiver)
        line.raises(way, at)
        return
    except Unsure:
        if changes or not all(isinstance(one, Data) for one in rest):
            finish(line, way, at, None)
        else:
            line.may_raise(way, at)
            finish(line, way, at, UNKNOWN)
        return
    if after is not None:
        changed(way, receiver, after)
    finish(line, way, at, result)


def _math(line: Line, way: Way, at: int, name: str, arguments: list[Value], keywords: Sequence[str]) -> None:
    """A function of the module `math`."""
    result: Value | None = None
    try:
        if not keywords:
            result = builtins.call_math(name, arguments)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        pass
    finish(line, way, at, result)
