"""Instructions that read iterables: loops, and values that are taken apart."""

from __future__ import annotations

from collections.abc import Callable

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.guide.evaluated import quiet
from remedy.eval.control_flow.guide.iteration import following, iterator_of
from remedy.eval.control_flow.guide.line import Line, Lost
from remedy.eval.control_flow.guide.operators import Raises, Unsure, unpacked
from remedy.eval.control_flow.guide.readers import read_on
from remedy.eval.control_flow.guide.values import UNKNOWN, Generator, Items, Mapped, Reading, Value
from remedy.eval.control_flow.guide.way import Way


def _for(line: Line, way: Way, one: Instruction, at: int) -> None:
    iterator = way.peek(1)
    if isinstance(iterator, Generator):
        if line.effects[at].reads is None:
            raise Lost
        line.resume(way, at, iterator)
        return
    if isinstance(iterator, Mapped):
        read_on(line, way, at, Reading("for", iterator))
        return
    if isinstance(iterator, Items):
        try:
            found = following(iterator, way.locals)
        except Raises:
            line.raises(way, at)
            return
        except Unsure:
            pass
        else:
            _next(line, way, at, (found.iterator, found.item) if found else None)
            return
        line.may_raise(way, at)  # its size may have changed
        after: Value = iterator._replace(at=iterator.at + 1)
    else:
        way.pop()
        line.unknown(way, at)
        way.stack.append(UNKNOWN)
        after = UNKNOWN
    _next(line, way.copy(), at, None)
    _next(line, way, at, (after, UNKNOWN))


def _next(line: Line, way: Way, at: int, found: tuple[Value, Value] | None) -> None:
    """A loop goes on with an iterator and its item, or ends."""
    way.pop()
    if found is None:
        line.edge(way, at, line.code.instructions[at].target)
        return
    way.stack += found
    line.done(way, at)


def _get_iter(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    if isinstance(value, Generator):
        way.stack.append(value)
        line.done(way, at)
        return
    try:
        way.stack.append(iterator_of(value))
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        quiet(line, way, at)
        way.stack.append(UNKNOWN)
    line.done(way, at)


def _unpack(line: Line, way: Way, one: Instruction, at: int) -> None:
    value = way.pop()
    try:
        items = unpacked(value, one.arg)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        line.unknown(way, at)
        items = [UNKNOWN] * one.arg
    way.stack += reversed(items)
    line.done(way, at)


ITERATE: dict[str, Callable[[Line, Way, Instruction, int], None]] = {
    "FOR_ITER": _for,
    "GET_ITER": _get_iter,
    "UNPACK_SEQUENCE": _unpack,
}
