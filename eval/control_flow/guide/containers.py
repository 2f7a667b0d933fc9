"""Instructions that change a container: a variable's, or one that is being made."""

from __future__ import annotations

from collections.abc import Callable

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.guide import operators
from remedy.eval.control_flow.guide.builtins import listed
from remedy.eval.control_flow.guide.evaluated import quiet
from remedy.eval.control_flow.guide.line import Line
from remedy.eval.control_flow.guide.operators import Raises, Unsure, inner
from remedy.eval.control_flow.guide.values import UNKNOWN, Data, Value, data
from remedy.eval.control_flow.guide.way import Way, change, changed


def _store_subscript(line: Line, way: Way, one: Instruction, at: int) -> None:
    value, container, key = way.take(3)
    _changing(line, way, at, container, lambda: operators.store(container, key, value))


def _delete_subscript(line: Line, way: Way, one: Instruction, at: int) -> None:
    container, key = way.take(2)
    _changing(line, way, at, container, lambda: operators.delete(container, key))


def _changing(line: Line, way: Way, at: int, container: Value, act: Callable[[], Data]) -> None:
    """An instruction that changes a container."""
    try:
        after = act()
    except Raises:
        change(way, container if isinstance(container, Data) else None)
        line.raises(way, at)
        return
    except Unsure:
        line.unknown(way, at)
    else:
        assert isinstance(container, Data)
        changed(way, container, after)
    line.done(way, at)


def _append(line: Line, way: Way, one: Instruction, at: int) -> None:
    """A comprehension adds to what it makes."""
    values = way.take(2 if one.op == "MAP_ADD" else 1)
    made = way.peek(one.arg)
    after: Value = UNKNOWN
    try:
        if isinstance(made, Data):
            if one.op == "LIST_APPEND":
                after = data([*made.value, inner(values[0])], own=True)
            elif one.op == "SET_ADD":
                after = data(operators.attempt(lambda: made.value | {operators.whole(values[0])[0]}), own=True)
            else:
                key = operators.whole(values[0])[0]
                after = data(operators.attempt(lambda: {**made.value, key: inner(values[1])}), own=True)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        pass
    if after is UNKNOWN and one.op != "LIST_APPEND":
        quiet(line, way, at)
    way.put(one.arg, after)
    line.done(way, at)


def _extend(line: Line, way: Way, one: Instruction, at: int) -> None:
    """What is made of `*` or `**`, or of a long literal."""
    value = way.pop()
    made = way.peek(one.arg)
    after: Value = UNKNOWN
    try:
        if isinstance(made, Data) and one.op == "LIST_EXTEND":
            after = data([*made.value, *listed(value).value], own=True)
        elif isinstance(made, Data) and one.op != "DICT_MERGE":  # which raises where a key comes twice
            [more] = operators.whole(value)
            new = made.value.copy()
            operators.attempt(new.update, more)
            after = data(new, own=True)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        pass
    if after is UNKNOWN:
        line.unknown(way, at)
    way.put(one.arg, after)
    line.done(way, at)


CHANGE: dict[str, Callable[[Line, Way, Instruction, int], None]] = {
    "STORE_SUBSCR": _store_subscript,
    "DELETE_SUBSCR": _delete_subscript,
    "LIST_APPEND": _append,
    "SET_ADD": _append,
    "MAP_ADD": _append,
    "LIST_EXTEND": _extend,
    "SET_UPDATE": _extend,
    "DICT_UPDATE": _extend,
    "DICT_MERGE": _extend,
}
