"""Instructions that give one value, made of what they take off the stack."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.guide import operators
from remedy.eval.control_flow.guide.builtins import listed
from remedy.eval.control_flow.guide.line import Line
from remedy.eval.control_flow.guide.operators import Raises, Unsure, inner, truth
from remedy.eval.control_flow.guide.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Builtin,
    Data,
    Items,
    Mark,
    Raised,
    Value,
    data,
)
from remedy.eval.control_flow.guide.way import Way, change
from remedy.eval.control_flow.known import NEVER_RUN

_CONTAINERS: dict[str, Callable[[Any], Any]] = {"BUILD_TUPLE": tuple, "BUILD_LIST": list, "BUILD_SET": set}


def _contains(way: Way, one: Instruction) -> Value:
    item, container = way.take(2)
    if isinstance(container, Mark):
        change(way, None)  # it may be an iterator that is read
    found = operators.is_in(item, listed(container) if isinstance(container, Items) else container)
    return TRUE if found.value != bool(one.arg) else FALSE


def _is(way: Way, one: Instruction) -> Value:
    return TRUE if operators.same(*way.take(2)).value != bool(one.arg) else FALSE


def _binary(way: Way, one: Instruction) -> Value:
    left, right = way.take(2)
    if one.name.endswith("="):
        if not isinstance(left, Data) or (left.changes and not isinstance(right, Data)):
            change(way, None)
        elif left.changes and type(left.value) is not tuple:
            change(way, left)
    return operators.binary(one.name, left, right)


def _build(way: Way, one: Instruction) -> Value:
    values = [inner(value) for value in way.take(one.arg)]
    if one.op == "BUILD_SET" and not data(values).whole:
        raise Unsure
    return data(operators.attempt(_CONTAINERS[one.op], values), own=True)


def _build_map(way: Way, one: Instruction) -> Value:
    values = way.take(2 * one.arg)
    keys = operators.whole(*values[::2])
    return data(operators.attempt(lambda: dict(zip(keys, map(inner, values[1::2])))), own=True)


def _build_map_of_names(way: Way, one: Instruction) -> Value:
    [keys] = operators.whole(way.pop())
    return data(dict(zip(keys, map(inner, way.take(one.arg)))), own=True)


def _build_string(way: Way, one: Instruction) -> Value:
    return Data(operators.attempt("".join, operators.whole(*way.take(one.arg))))


def _build_slice(way: Way, one: Instruction) -> Value:
    return Data(slice(*operators.whole(*way.take(one.arg))))


def _format(way: Way, one: Instruction) -> Value:
    spec = way.pop() if one.arg & 4 else Data("")
    return operators.written(way.pop(), one.arg & 3, spec)


def _matches(way: Way, one: Instruction) -> Value:
    kind, raised = way.pop(), way.peek(1)
    if isinstance(kind, Data) and type(kind.value) is tuple:
        kinds = list(kind.value)
    else:
        kinds = [kind]
    if not isinstance(raised, Raised) or not all(isinstance(one, Builtin) for one in kinds):
        raise Unsure
    found = getattr(builtins, raised.name, None)
    caught = [getattr(builtins, one.name) for one in kinds]
    if not isinstance(found, type) or not all(isinstance(one, type) for one in caught):
        raise Unsure
    return TRUE if issubclass(found, tuple(caught)) else FALSE


def _to_tuple(way: Way, one: Instruction) -> Value:
    value = way.pop()
    if not isinstance(value, Data):
        raise Unsure
    return data(tuple(value.value), own=True)


def _compare(way: Way, one: Instruction) -> Value:
    return operators.compare(one.name, *way.take(2))


def _subscript(way: Way, one: Instruction) -> Value:
    return operators.subscript(*way.take(2))


def _unary(way: Way, one: Instruction) -> Value:
    return operators.unary(one.op, way.pop())


def _not(way: Way, one: Instruction) -> Value:
    value = truth(way.pop())
    if value is None:
        raise Unsure
    return FALSE if value else TRUE


GIVE_ONE: dict[str, Callable[[Way, Instruction], Value]] = {
    "COMPARE_OP": _compare,
    "CONTAINS_OP": _contains,
    "IS_OP": _is,
    "BINARY_OP": _binary,
    "BINARY_SUBSCR": _subscript,
    "UNARY_NEGATIVE": _unary,
    "UNARY_POSITIVE": _unary,
    "UNARY_INVERT": _unary,
    "UNARY_NOT": _not,
    "BUILD_TUPLE": _build,
    "BUILD_LIST": _build,
    "BUILD_SET": _build,
    "BUILD_MAP": _build_map,
    "BUILD_CONST_KEY_MAP": _build_map_of_names,
    "BUILD_STRING": _build_string,
    "BUILD_SLICE": _build_slice,
    "FORMAT_VALUE": _format,
    "CHECK_EXC_MATCH": _matches,
    "LIST_TO_TUPLE": _to_tuple,
}


def evaluate(line: Line, way: Way, one: Instruction, at: int) -> None:
    """An operator: exactly where its operands are known, else with an unknown value for a result."""
    height = len(way.stack) + one.effect - 1
    try:
        value = GIVE_ONE[one.op](way, one)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        del way.stack[max(height, 0) :]
        if one.op in NEVER_RUN:
            line.may_raise(way, at)
        else:
            quiet(line, way, at)
        value = UNKNOWN
    way.stack.append(value)
    line.done(way, at)


def quiet(line: Line, way: Way, at: int) -> None:
    """An operator of Python's own types, on something unknown: it changes nothing but what `change` says."""
    effect = line.effects[at]
    if effect.runs_escaped and (line.moves.functions or line.moves.generators):
        line.unknown(way, at)
    else:
        line.may_raise(way, at)
