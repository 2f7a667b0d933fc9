"""Calls of functions of the program, and of Python's own, some of which call those one by one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from remedy.eval.control_flow.bytecode import Instruction
from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.line import Line, Lost
from remedy.eval.control_flow.evaluator.source import COMPREHENSIONS
from remedy.eval.control_flow.evaluator.values import (
    CHANGE,
    UNKNOWN,
    Frame,
    Function,
    Generator,
    Iter,
    Mapped,
    Own,
    Raises,
    Reading,
    Unsure,
    changes,
    known,
    unordered,
)
from remedy.eval.control_flow.evaluator.way import Way, change, changed, spared, unnamed
from remedy.eval.control_flow.known import QUIET_BUILTINS, words
from remedy.eval.control_flow.moves import Point

_READERS = words("list tuple set frozenset dict sum min max any all sorted join extend update")
_READ_ALL = words("list tuple sorted join extend key")
"""Readers that look at what they read only when they have it all."""
_KINDS: dict[str, tuple[type, ...]] = {"join": (str,), "extend": (list,), "update": (set, dict)}
_LEAVES_OTHERS = words("append insert add discard remove pop clear reverse popitem setdefault")
"""Methods that change nothing but their object, whatever they are given."""


def call(line: Line, way: Way, one: Instruction, at: int) -> None:
    """Evaluate a call."""
    node, effect = way.node(at), line.effects[at]
    if isinstance(node, ast.Assert):
        line.done(way, at)
        return
    if isinstance(node, COMPREHENSIONS) and node in line.source.codes:
        _comprehension(line, way, at, node)
        return
    if not isinstance(node, ast.Call) or one.op not in ("CALL", "CALL_FUNCTION_EX"):
        node = None
    callee = way.known_or_not(node.func) if node is not None else UNKNOWN
    number = callee.code if isinstance(callee, Function) else effect.calls
    if number is not None:
        _function(line, way, at, number, node)
        return
    try:
        given, named = _arguments(way, node)
    except (Unsure, Raises):
        if node is None or not _is_quiet(line, way, node, callee):
            line.unknown(way, at)
        else:
            line.quiet(way, at)
        line.gives(way, at, UNKNOWN)
        return
    assert node is not None
    if isinstance(callee, Own) and not callee.raised:
        _own(line, way, at, node, callee.name, given, named)
    elif isinstance(node.func, ast.Attribute):
        _method(line, way, at, node.func, given, named)
    else:
        finish(line, way, at, None)


def _arguments(way: Way, node: ast.Call | None) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position and by name, UNKNOWN where they are not known. Raises Unsure where their number is not."""
    if node is None:
        raise Unsure
    given: list[Any] = []
    for one in node.args:
        given += pure.listed(way.value(one.value)) if isinstance(one, ast.Starred) else [way.known_or_not(one)]
    if any(one.arg is None for one in node.keywords):
        raise Unsure
    return given, {str(one.arg): way.known_or_not(one.value) for one in node.keywords}


def finish(line: Line, way: Way, at: int, result: tuple[Any] | None) -> None:
    """A call is done. `result`: None for one of which nothing is known."""
    if result is None:
        line.unknown(way, at)
    line.gives(way, at, UNKNOWN if result is None else result[0])


def came_back(line: Line, way: Way, frame: Frame) -> None:
    """What an instruction called, resumed or closed has come back."""
    at, reading = frame.at, frame.reading
    if reading is None:
        if line.code.instructions[at].op not in ("CALL", "CALL_FUNCTION_EX") or frame.point is not Point.RETURNED:
            raise Lost
        finish(line, way, at, (frame.came,) if line.effects[at].calls is not None else None)
    elif reading.reader == "call":
        finish(line, way, at, (frame.came,))
    else:
        _go_on(line, way, frame, reading)


def _comprehension(line: Line, way: Way, at: int, node: Any) -> None:
    number, given = line.source.codes[node], UNKNOWN
    try:
        given = way.iterator(node.generators[0].iter)
    except (Unsure, Raises):
        pass
    if not line.moves.codes[number].runs_later:
        line.enter(way, at, number, Reading("call"), given)
    elif not line.moves.codes[number].is_generator:
        raise Lost
    else:
        finish(line, way, at, (Generator(line.born(number, unnamed(given, way.locals))),))


def _function(line: Line, way: Way, at: int, number: int, node: ast.Call | None) -> None:
    code, effect = line.moves.codes[number], line.effects[at]
    starred = node is None or any(isinstance(one, ast.Starred) for one in node.args)
    words_given = [] if node is None else [one.arg for one in node.keywords]
    if starred or None in words_given:
        if effect.runs_escaped and (line.moves.functions or line.moves.generators):
            raise Lost  # what `*` stands before may run some of it before the call
        line.may_raise(way, at)
    else:
        assert node is not None
        exact = {*code.parameters[: len(node.args)], *words_given} == set(code.parameters)
        if not (exact and len(node.args) + len(words_given) == code.positional == len(code.parameters)):
            line.may_raise(way, at)
    if not code.runs_later:
        line.enter(way, at, number, Reading("call"))
    else:
        finish(line, way, at, (Generator(line.born(number, UNKNOWN)),) if code.is_generator else None)


def _is_quiet(line: Line, way: Way, node: ast.Call, callee: Any) -> bool:
    """Whether a call of one of Python's own changes nothing, whatever it is given."""
    if isinstance(callee, Own):
        return callee.name in QUIET_BUILTINS or callee.name.startswith("math.")
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return name in pure.READING_METHODS and name not in line.source.names.stored_attributes


def _own(line: Line, way: Way, at: int, node: ast.Call, name: str, given: list[Any], named: dict[str, Any]) -> None:
    if name in ("map", "filter") and not named and len(given) == 2 and isinstance(given[0], Function):
        _map(line, way, at, name, given[0].code, node.args[1])
        return
    if len(given) == 1 and not named and isinstance(given[0], Generator | Mapped):
        _read_by(line, way, at, Reading(name, given[0]))
        return
    if isinstance(named.get("key"), Function) and name in ("sorted", "min", "max") and len(given) == 1:
        _sort(line, way, at, name, node.args[0], named)
        return
    if any(isinstance(one, Generator | Mapped) for one in (*given, *named.values())):
        finish(line, way, at, None)
        return
    try:
        if name in ("enumerate", "zip", "reversed", "map", "iter") and not named:
            result = _iterator(way, name, node, given)
        elif "." in name and given and type(given[0]).__name__ == name.partition(".")[0]:
            result, after = pure.method(given[0], name.partition(".")[2], given[1:], named)
            if after is not given[0]:
                raise Unsure
        else:
            result = pure.call(name, given, named)
    except Raises:
        line.raises(way, at)
    except Unsure:
        if _is_quiet(line, way, node, Own(name)) or (name in words("sorted min max sum any all list tuple set dict frozenset type print") and _plain(given)):
            line.quiet(way, at)
            line.gives(way, at, UNKNOWN)
        else:
            finish(line, way, at, None)
    else:
        finish(line, way, at, (result,))


def _plain(given: Sequence[Any]) -> bool:
    return all(one is not UNKNOWN and not isinstance(one, Generator | Mapped) for one in given)


def _iterator(way: Way, name: str, node: ast.Call, given: list[Any]) -> Any:
    """What `enumerate` and others give, as far as it depends on nothing that is not known."""
    if name == "iter" or any(isinstance(one, ast.Starred) for one in node.args) or not given:
        raise Unsure  # who holds it is not followed
    if name == "map":
        function, read = given[0], _read(way, node.args[1])
        if len(given) != 2 or not isinstance(function, Own):
            raise Unsure
        try:
            results = [_applied(function.name, one) for one in read.items[read.at :]]
        except Raises:  # when that item is read, and not now
            raise Unsure from None
        return Iter(tuple(results), read.sources)
    if name == "enumerate":
        first = known(given[1]) if len(given) > 1 else 0
        read = way.iterator(node.args[0])
        if not isinstance(read, Iter) or type(first) is not int or len(given) > 2 or read.at:
            raise Unsure
        if read.name is not None and not read.view and type(way.locals.get(read.name)) is list:
            return read._replace(view="enumerate", first=first)
        read = _read(way, node.args[0])
        return Iter(tuple(enumerate(read.items, first)), read.sources)
    reads = [_read(way, one) for one in node.args]
    sources = tuple(one for read in reads for one in read.sources)
    if name == "zip":
        return Iter(tuple(zip(*(read.items[read.at :] for read in reads))), sources)
    if len(reads) != 1 or not (type(given[0]) in (list, tuple, str, range, dict) or (isinstance(given[0], Iter) and given[0].view in ("keys", "values", "items"))):
        raise Unsure
    return Iter(tuple(reversed(reads[0].items)), sources)


def _applied(name: str, one: Any) -> Any:
    if one is UNKNOWN:
        return UNKNOWN
    if "." in name and not name.startswith("math."):
        kind, _, name = name.partition(".")
        if type(one).__name__ != kind or name not in pure.READ_ONLY.get(type(one), ()):
            raise Unsure
        return pure.method(one, name, [], {})[0]
    found = pure.call(name, [one], {})
    if isinstance(found, Iter):
        raise Unsure
    return found


def _read(way: Way, node: ast.expr) -> Iter:
    """What an expression gives to what reads it, as it is now."""
    found = unnamed(way.iterator(node), way.locals)
    if not isinstance(found, Iter) or len(found.items) > pure.LARGEST:
        raise Unsure
    if found.view == "enumerate":
        return Iter(tuple(enumerate(found.items, found.first)), found.sources)
    return found


def _map(line: Line, way: Way, at: int, name: str, function: int, node: ast.expr) -> None:
    code = line.moves.codes[function]
    try:
        read = _read(way, node)
        if code.runs_later or len(code.parameters) != 1 or read.at:
            raise Unsure
        result: Any = Mapped(function, tuple(read.items), read.sources, name == "filter")
    except Raises:
        line.raises(way, at)
        return
    except Unsure:
        result = UNKNOWN
        line.may_raise(way, at)
    finish(line, way, at, (result,))


def _method(line: Line, way: Way, at: int, func: ast.Attribute, given: list[Any], named: dict[str, Any]) -> None:
    name, receiver = func.attr, way.known_or_not(func.value)
    kind, node = type(receiver), way.node(at)
    assert isinstance(node, ast.Call)
    plain = kind in pure.READ_ONLY and name not in line.source.names.stored_attributes
    if plain and len(given) == 1 and not named and isinstance(given[0], Generator | Mapped) and kind in _KINDS.get(name, ()):
        _read_by(line, way, at, Reading(name, given[0], (), (receiver,)))
        return
    if plain and kind is list and name == "sort" and isinstance(named.get("key"), Function) and not given:
        change(way, receiver)
        _sort(line, way, at, "sort", receiver, named)
        return
    mutates = name in pure.MUTATORS.get(kind, ())
    try:
        if not plain:
            raise Unsure
        result, after = pure.method(receiver, name, given, named)
    except Raises:
        if mutates:
            change(way, receiver)
        line.raises(way, at)
        return
    except Unsure:
        if plain and mutates and name in _LEAVES_OTHERS:
            change(way, receiver)
            line.quiet(way, at)
            line.gives(way, at, UNKNOWN)
        elif not mutates and _is_quiet(line, way, node, UNKNOWN) and _plain([one for one in given if one is not UNKNOWN]):
            line.quiet(way, at)
            line.gives(way, at, UNKNOWN)
        else:
            finish(line, way, at, None)
        return
    if mutates:
        changed(way, func.value, receiver, after)
    finish(line, way, at, (result,))


def _sort(line: Line, way: Way, at: int, name: str, read: Any, named: dict[str, Any]) -> None:
    """`sorted`, `sort`, `min` or `max` with a function of the program for a key. `read`: what is sorted, of `sort` the list."""
    function = named["key"].code
    code, options = line.moves.codes[function], {word: one for word, one in named.items() if word != "key"}
    if code.runs_later or code.positional != 1 or len(code.parameters) != 1:
        raise Lost
    try:
        items, sources = (read, ([],)) if name == "sort" else _read(way, read)[:2]
    except (Raises, Unsure):
        finish(line, way, at, None)
        return
    # A list is empty while it is sorted, and must stay so.
    source = Mapped(function, tuple(items), tuple(sources))
    if not items and "default" in options:
        finish(line, way, at, (options["default"],))
    elif not items and name in ("min", "max"):
        line.raises(way, at)
    else:
        read_on(line, way, at, Reading("key", source, (), (name, tuple(items), options)))


def _read_by(line: Line, way: Way, at: int, reading: Reading) -> None:
    """A call that reads a generator, or a function's results, to the end or until it knows."""
    generator = isinstance(reading.source, Generator)
    if isinstance(reading.source, Generator) and line.effects[at].reads != reading.source.frame.code:
        raise Lost
    if reading.reader not in _READERS:
        if generator:
            raise Lost
        finish(line, way, at, None)
        return
    read_on(line, way, at, reading)


def read_on(line: Line, way: Way, at: int, reading: Reading) -> None:
    """The reader asks for the next."""
    source = reading.source
    if isinstance(source, Generator):
        line.resume(way, at, source, reading)
    elif source is not None and source.at < len(source.items):
        line.enter(way, at, source.function, reading)
    else:
        _end(line, way, at, reading)


def _go_on(line: Line, way: Way, frame: Frame, reading: Reading) -> None:
    """A reader has got what it asked for."""
    at, source, came = frame.at, reading.source, frame.came
    if frame.point is Point.CLOSED:
        finish(line, way, at, (reading.reader == "any",))
        return
    if isinstance(source, Generator):
        if frame.point is Point.RETURNED:
            if reading.reader == "for" and source.frame.code in line.source.names.returning:
                raise Lost
            _end(line, way, at, reading)
            return
        if frame.left is None:
            raise Lost
        source = Generator(frame.left)
    else:
        assert source is not None
        source = source._replace(at=source.at + 1)
        if source.filters:
            true = pure.truth(came)
            if true is None:
                raise Lost
            came = source.items[source.at - 1]
            if not true:
                read_on(line, way, at, reading._replace(source=source))
                return
    if reading.reader in ("extend", "update"):  # which change their object at each item
        change(way, UNKNOWN)
        source = spared(source, UNKNOWN)
        if source is UNKNOWN:
            raise Lost
    if reading.reader == "for":
        line.next_item(way, at, (came, source))
        return
    reading = reading._replace(source=source, got=(*reading.got, came))
    if reading.reader in ("any", "all"):
        true = pure.truth(came)
        if true is None:
            raise Lost
        if true == (reading.reader == "any"):
            if isinstance(source, Generator):
                line.close(way, at, source, reading)
            else:
                finish(line, way, at, (true,))
            return
        reading = reading._replace(got=())
    elif isinstance(source, Generator) and reading.reader not in _READ_ALL and not _goes_together(reading):
        raise Lost
    read_on(line, way, at, reading)


def _goes_together(reading: Reading) -> bool:
    """Whether a reader that looks at once at what it gets can go on with it."""
    last, kinds = reading.got[-1], {type(reading.got[-1]), type(reading.got[0])}
    if last is UNKNOWN or not pure.is_data(last):
        return False
    if reading.reader in ("set", "frozenset"):
        return not changes(last)
    if reading.reader in ("dict", "update"):
        return type(last) is tuple and len(last) == 2 and not changes(last)
    return kinds <= {int, float, bool} or (kinds == {str} and reading.reader != "sum")


def _end(line: Line, way: Way, at: int, reading: Reading) -> None:
    """A reader has got everything."""
    if reading.reader == "for":
        line.next_item(way, at, None)
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
        change(way, UNKNOWN)
    line.gives(way, at, result)


def _result(reading: Reading) -> Any:
    got = list(reading.got)
    if reading.reader in ("any", "all"):
        return reading.reader == "all"
    if reading.reader in ("extend", "update"):
        return None
    if any(one is UNKNOWN or not pure.is_data(one) for one in got):
        raise Unsure
    if reading.reader == "join":
        return pure.method(reading.call[0], "join", [got], {})[0]
    if reading.reader != "key":
        return pure.call(reading.reader, [got], {})
    name, items, options = reading.call
    options = {word: known(one) for word, one in options.items()}
    if unordered(got):
        raise Unsure
    if name == "sort":
        pure.attempt(sorted, got)
        return None
    if any(one is UNKNOWN or changes(known(one)) for one in items):
        pure.attempt(sorted, got)
        raise Unsure  # what a key was of may have changed since
    order = iter(got)
    functions: dict[str, Any] = {"sorted": sorted, "min": min, "max": max}
    return pure.attempt(functions[name], items, key=lambda _: next(order), **options)


__all__ = ["CHANGE", "call", "came_back", "read_on"]
