"""Calls of Python's own that run functions of the program one by one: what reads a generator, or sorts by a key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from remedy.eval.control_flow.guide import builtins
from remedy.eval.control_flow.guide.builtins import sources
from remedy.eval.control_flow.guide.iteration import gathered, items_of
from remedy.eval.control_flow.guide.line import Line, Lost
from remedy.eval.control_flow.guide.operators import Raises, Unsure, attempt, member, truth, whole
from remedy.eval.control_flow.guide.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Data,
    Frame,
    Generator,
    Mapped,
    Reading,
    Value,
    data,
)
from remedy.eval.control_flow.guide.way import Way, change, unless_changed
from remedy.eval.control_flow.known import words
from remedy.eval.control_flow.moves import Point

_READERS = words("list tuple set frozenset dict sum min max any all sorted join extend update")
_READS_ALL = words("list tuple sorted join extend")
"""Readers that look at what they read only when they have it all."""
_PLAIN_NUMBERS = frozenset({int, float, bool})


def finish(line: Line, way: Way, at: int, result: Value | None) -> None:
    """A call is done. `result`: None for one of which nothing is known."""
    if result is None:
        line.unknown(way, at)
    way.stack.append(UNKNOWN if result is None else result)
    line.done(way, at)


def sort(
    line: Line, way: Way, at: int, name: str, function: int, arguments: list[Value], keywords: Sequence[str]
) -> None:
    """`sorted`, `sort`, `min` or `max` with a function of the program for a key."""
    cut = len(arguments) - len(keywords)
    named = {word: one for word, one in zip(keywords, arguments[cut:]) if word != "key"}
    try:
        items = items_of(arguments[0])
    except (Raises, Unsure):
        finish(line, way, at, None)
        return
    if line.moves.codes[function].runs_later:
        raise Lost
    # A list is empty while it is sorted, and must stay so.
    source = Mapped(function, items, sources(arguments[0]) if name != "sort" else (data([]),))
    if not items and "default" in named:
        finish(line, way, at, named["default"])
    elif not items and name in ("min", "max"):
        line.raises(way, at)
    else:
        read_on(line, way, at, Reading("key", source, (), (name, items, named)))


def read_by(line: Line, way: Way, at: int, reading: Reading) -> None:
    """A call that reads a generator, or a function's results, to the end or until it knows."""
    if isinstance(reading.source, Generator) and line.effects[at].reads != reading.source.frame.code:
        raise Lost
    if reading.reader not in _READERS:
        if isinstance(reading.source, Generator):
            raise Lost
        finish(line, way, at, None)
        return
    read_on(line, way, at, reading)


def read_on(line: Line, way: Way, at: int, reading: Reading) -> None:
    """The reader asks for the next."""
    source = reading.source
    if isinstance(source, Generator):
        line.resume(way, at, source, reading)
    elif source.at < len(source.items):
        line.enter(way, at, source.function, reading)
    else:
        _end(line, way, at, reading)


def go_on(line: Line, way: Way, frame: Frame, reading: Reading) -> None:
    """A reader has got what it asked for."""
    at, source, came = frame.at, reading.source, frame.came
    if frame.point is Point.CLOSED:
        finish(line, way, at, TRUE if reading.reader == "any" else FALSE)
        return
    if isinstance(source, Generator):
        if frame.point is Point.RETURNED:
            _end(line, way, at, reading)
            return
        if frame.left is None:
            raise Lost
        source = Generator(frame.left)
    else:
        source = source._replace(at=source.at + 1)
        if source.filters:
            true = truth(came)
            if true is None:
                raise Lost
            if not true:
                if reading.reader == "for":
                    way.put(1, source)
                read_on(line, way, at, reading._replace(source=source))
                return
            came = member(source.items[source.at - 1])
    if reading.reader in ("extend", "update"):  # which change their object at each item
        change(way, None)
        kept = unless_changed(source, None)
        if not isinstance(kept, Generator | Mapped):
            raise Lost
        source = kept
    if reading.reader == "for":
        way.put(1, source)
        way.stack.append(came)
        line.done(way, at)
        return
    constant = came if not isinstance(came, Data) or not came.changes else UNKNOWN  # it may change until all is read
    reading = reading._replace(source=source, got=(*reading.got, constant))
    if reading.reader in ("any", "all"):
        true = truth(came)
        if true is None:
            raise Lost
        if true == (reading.reader == "any"):
            if isinstance(source, Generator):
                line.close(way, at, source, reading)
            else:
                finish(line, way, at, TRUE if true else FALSE)
            return
        reading = reading._replace(got=())
    elif isinstance(source, Generator) and reading.reader not in _READS_ALL and not _goes_together(reading):
        raise Lost
    read_on(line, way, at, reading)


def _goes_together(reading: Reading) -> bool:
    """Whether a reader that looks at once at what it gets can go on with it."""
    last, first = reading.got[-1], reading.got[0]
    if not (isinstance(last, Data) and isinstance(first, Data)):
        return False
    kinds = {type(last.value), type(first.value)}
    if reading.reader in ("set", "frozenset"):
        return not last.changes
    if reading.reader in ("dict", "update"):
        pair = last.value
        return type(pair) is tuple and len(pair) == 2 and not last.changes
    return kinds <= _PLAIN_NUMBERS or (kinds == {str} and reading.reader != "sum")


def _end(line: Line, way: Way, at: int, reading: Reading) -> None:
    """A reader has got everything."""
    if reading.reader == "for":
        way.pop()
        line.edge(way, at, line.code.instructions[at].target)
        return
    try:
        result = _result(reading)
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        line.may_raise(way, at)
        result = UNKNOWN
    if reading.reader in ("extend", "update"):
        change(way, None)
    way.stack.append(result)
    line.done(way, at)


def _result(reading: Reading) -> Value:
    got = gathered(reading.got)
    if reading.reader == "join":
        return data(attempt(reading.call[0].value.join, *whole(got)))
    if reading.reader in ("extend", "update"):
        return NONE
    if reading.reader == "key":
        return _sorted(reading, got)
    if reading.reader in ("any", "all"):
        return FALSE if reading.reader == "any" else TRUE
    return builtins.call(reading.reader, [got], ())


def _sorted(reading: Reading, keys: Data) -> Value:
    name, items, named = reading.call
    if name == "sort":
        whole(keys)
        attempt(sorted, keys.value)
        return NONE
    [known] = whole(keys)
    members = data(list(items))
    if members.value and any(isinstance(member(one), Data) and data(one).changes for one in items):
        raise Unsure  # what a key was of may have changed since
    options = dict(zip(named, whole(*named.values())))
    order = iter(known)
    functions: dict[str, Callable[..., Any]] = {"sorted": sorted, "min": min, "max": max}
    return data(attempt(functions[name], whole(members)[0], key=lambda _: next(order), **options))
