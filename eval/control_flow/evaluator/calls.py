"""Calls of functions of the program, and of Python's own."""

from __future__ import annotations

import ast
from typing import Any

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.frame import Frame, change
from remedy.eval.control_flow.evaluator.line import Line, Lost
from remedy.eval.control_flow.evaluator.source import COMPREHENSIONS
from remedy.eval.control_flow.evaluator.values import UNKNOWN, Function, Own, Raises, Unsure
from remedy.eval.control_flow.known import QUIET_BUILTINS, words
from remedy.eval.control_flow.moves import Point

_CHANGE_ONE = words("append insert add discard remove pop clear reverse popitem setdefault")
"""Methods that change nothing but their object, whatever they are given."""


def came_back(line: Line, way: Frame) -> None:
    """Return what an instruction called has come back."""
    if line.code.instructions[way.at].op not in ("CALL", "CALL_FUNCTION_EX") or way.point is not Point.RETURNED:
        raise Lost
    if not way.awaited and line.effects[way.at].calls is None:
        line.unknown(way, way.at)
        way.came = UNKNOWN
    line.gives(way, way.at, way.came)


def call(line: Line, way: Frame, one: Instruction, at: int) -> None:
    """Evaluate a call."""
    node = line.nodes[at]
    if isinstance(node, ast.Assert):
        line.done(way, at)
        return
    callee = way.known_or_not(node.func) if isinstance(node, ast.Call) else UNKNOWN
    number, effect = callee.code if isinstance(callee, Function) else line.effects[at].calls, line.effects[at]
    if isinstance(node, COMPREHENSIONS):
        if number is None:
            line.gives(way, at, UNKNOWN)  # a generator, which runs later
            return
        try:
            given = way.iterator(node.generators[0].iter)
        except (Unsure, Raises):
            given = UNKNOWN
        line.enter(way, at, number, awaited=True, given=given)
    elif number is not None:
        if not (isinstance(node, ast.Call) and _fits(line, node, number)):
            if one.op == "CALL_FUNCTION_EX" and effect.runs_escaped and (line.moves.functions or line.moves.generators):
                raise Lost  # what `*` stands before may run some of it before the call
            line.may_raise(way, at)
        if line.moves.codes[number].runs_later:
            line.gives(way, at, UNKNOWN)
        else:
            line.enter(way, at, number, awaited=True)
    elif isinstance(node, ast.Call):
        _own(line, way, node, callee, at)
    else:
        line.unknown(way, at)
        line.gives(way, at, UNKNOWN)


def _fits(line: Line, node: ast.Call, number: int) -> bool:
    """Say if a function certainly takes the arguments of a call."""
    code, starred = line.moves.codes[number], any(isinstance(one, ast.Starred) for one in node.args)
    return not (starred or node.keywords) and len(node.args) == code.positional == len(code.parameters)


def _own(line: Line, way: Frame, node: ast.Call, callee: Any, at: int) -> None:
    """A call of one of Python's own functions or methods."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    receiver = way.known_or_not(owner) if owner is not None else None
    way.values.pop(node, None)
    value: Any = UNKNOWN
    quiet, raises = False, False
    try:
        given, named = way.arguments(node)
        quiet = _is_quiet(line, node, receiver, callee, [*given, *named.values()])
        value = way.value(node)
    except Raises:
        raises = True
    except Unsure:
        pass
    if owner is not None and isinstance(callee, Own) and callee.name[1:] in pure.MUTATORS.get(type(receiver), ()):
        change(way, receiver)
    if raises:
        line.raises(way, at)
        return
    if value is UNKNOWN:
        line.quiet(way, at) if quiet else line.unknown(way, at)
    line.gives(way, at, value)


def _is_quiet(line: Line, node: ast.Call, receiver: Any, callee: Any, given: list[Any]) -> bool:
    """Say if a call changes nothing but the object whose method it is, if it is one of Python's own."""
    plain = not any(one is UNKNOWN or isinstance(one, Function) for one in given)
    if isinstance(callee, Own) and not callee.name.startswith("."):
        return (
            callee.name in QUIET_BUILTINS or callee.name.startswith("math.") or (plain and callee.name in pure.READERS)
        )
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in pure.MUTATORS.get(type(receiver), ()):
        return plain or name in _CHANGE_ONE
    known_method = name in pure.QUIET_METHODS and name not in line.source.names.stored_attributes
    return known_method and (plain or name not in pure.READ_THEIR_ARGUMENTS)
