"""How far one way through a line has been evaluated: what its expressions are worth, and what is known no more once something has
changed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.source import Source
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
    may_hold,
    members,
)
from remedy.eval.control_flow.moves import Point

_FRESH = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.Constant)
_FRESH_CALLS = frozenset({"list", "tuple", "set", "frozenset", "dict", "sorted", "range", "str", "split", "copy"})


@dataclass(slots=True)
class Way:
    """One way through a line; of this frame all is as it was when `at` is about to run."""

    source: Source
    code: int
    at: int
    locals: dict[str, Any]
    kept: frozenset[str]
    shown: Mapping[str, str] | None
    below: Frame | None
    values: dict[ast.AST, Any]
    loops: dict[int, Any]

    @classmethod
    def of(cls, source: Source, one: Frame) -> Way:
        variables, values, loops = dict(one.locals), dict(one.values), dict(one.loops)
        return cls(source, one.code, one.at, variables, one.kept, one.shown, one.below, values, loops)

    def copy(self) -> Way:
        return replace(self, locals=dict(self.locals), values=dict(self.values), loops=dict(self.loops))

    def frame(self, at: int, point: Point, reading: Reading | None = None) -> Frame:
        one = self.copy()
        return Frame(self.code, at, point, one.locals, self.kept, self.shown, self.below, one.values, one.loops, reading)

    def node(self, at: int) -> ast.AST | None:
        return self.source.of[self.code][at]

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression whose parts have been evaluated. Raises Unsure or Raises."""
        if node in self.values:
            found = self.values[node]
            if found is UNKNOWN:
                raise Unsure
            return found
        match node:
            case ast.Constant(value=value):
                return known(value)
            case ast.Tuple(elts=parts):
                return tuple(self._members(parts))
            case ast.List(elts=parts):
                return self._members(parts)
            case ast.Set(elts=parts):
                return pure.attempt(set, list(map(known, self._members(parts))))
            case ast.Dict(keys=keys, values=parts):
                return self._dict(keys, parts)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if one is None else known(self.value(one)) for one in (lower, upper, step)))
            case ast.JoinedStr(values=parts):
                return "".join(self._text(one) for one in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return pure.binary(type(op).__name__, self.value(left), self.value(right))
            case ast.AugAssign(target=left, op=op, value=right):
                return pure.binary(type(op).__name__, self.value(left), self.value(right), in_place=True)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.truth(operand)
            case ast.UnaryOp(op=op, operand=operand):
                return pure.attempt(pure.UNARY[type(op).__name__], known(self.value(operand)))
            case ast.BoolOp(op=op, values=parts):
                for one in parts[:-1]:
                    if self.truth(one) == isinstance(op, ast.Or):
                        return self.value(one)
                return self.value(parts[-1])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.truth(test) else orelse)
            case ast.NamedExpr(value=value):
                return self.value(value)
            case ast.Subscript(value=value, slice=key):
                return pure.subscript(self.value(value), self.value(key))
            case ast.Lambda() if node in self.source.codes:
                return Function(self.source.codes[node])
            case ast.Attribute(value=value, attr=name):
                return self._attribute(self.value(value), name)
        raise Unsure

    def truth(self, node: ast.AST | None) -> bool:
        found = pure.truth(self.value(node))
        if found is None:
            raise Unsure
        return found

    def known_or_not(self, node: ast.AST | None) -> Any:
        """A value, UNKNOWN where it is not known."""
        try:
            return self.value(node)
        except (Unsure, Raises):
            return UNKNOWN

    def _members(self, parts: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for one in parts:
            found += pure.listed(self.value(one.value)) if isinstance(one, ast.Starred) else [self.value(one)]
        if any(one is UNKNOWN or isinstance(one, Iter | Mapped | Generator) for one in found):
            raise Unsure
        return found

    def _dict(self, keys: list[ast.expr | None], parts: list[ast.expr]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, part in zip(keys, parts):
            value = known(self.value(part))
            pure.attempt(found.update, value if key is None else [(known(self.value(key)), value)])
        return found

    def _text(self, part: ast.expr) -> str:
        if isinstance(part, ast.FormattedValue):
            spec = "" if part.format_spec is None else self.value(part.format_spec)
            return pure.formatted(self.value(part.value), part.conversion, spec)
        return str(self.value(part))

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Own) and not owner.raised and pure.has_attribute(owner, name):
            return Own(f"{owner.name}.{name}")
        raise Unsure

    def bind(self, name: str, value: Any) -> None:
        """A variable gets a value."""
        self.unbind(name)
        self.locals[name] = UNKNOWN if isinstance(value, Iter | Mapped | Generator) else value  # two may read it now

    def unbind(self, name: str) -> None:
        for at, one in self.loops.items():
            if isinstance(one, Iter) and one.name == name:
                self.loops[at] = unnamed(one, self.locals)
        self.locals.pop(name, None)
        self.kept -= {name}

    def iterator(self, node: ast.AST | None) -> Any:
        """What reading an expression's value goes through; UNKNOWN where that is not known. Raises Raises."""
        value = self.known_or_not(node)
        if value is UNKNOWN or isinstance(value, Mapped | Generator):
            return value
        if isinstance(value, Iter):
            owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            if value.view in ("keys", "values", "items") and (name := self._live(owner, value.sources[0])):
                return Iter(tuple(value.sources[0]), name=name, view=value.view)
            return value
        if isinstance(value, Function | Own):
            return UNKNOWN if isinstance(value, Own) else _not_iterable()
        kind = type(value)
        items = pure.listed(value) if kind not in (str, range) else value
        if name := self._live(node, value):
            return Iter(tuple(items) if kind is list else tuple(value), (), 0, name, "keys" if kind is dict else "")
        fresh = isinstance(node, _FRESH) or (isinstance(node, ast.Call) and _called(node) in _FRESH_CALLS)
        fresh = fresh or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))
        sources = tuple(one for one in members(value) if changes(one)) if fresh else (value,)
        return Iter(items if kind in (str, range) else tuple(items), sources if changes(value) else ())

    def _live(self, node: ast.AST | None, value: Any) -> str | None:
        """The variable that an expression names, if it will stand for the same object until it is bound again."""
        if not isinstance(node, ast.Name) or not changes(value) or node.id in self.source.names.stored_cells:
            return None
        return node.id if self.locals.get(node.id) is value and type(value) in CHANGE else None


def _not_iterable() -> Any:
    raise Raises("TypeError")


def _called(node: ast.Call) -> str:
    func = node.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def following(one: Iter, variables: Mapping[str, Any]) -> tuple[Any, Iter] | None:
    """The next item, and the iterator after it; None at the end. Raises Unsure or Raises."""
    items = one.items if one.name is None else _current(one, variables)
    if one.at >= len(items):
        return None
    item = items[one.at]
    return (one.first + one.at, item) if one.view == "enumerate" else item, one._replace(at=one.at + 1)


def _current(one: Iter, variables: Mapping[str, Any]) -> Any:
    """The items of a variable's value as it is now."""
    now = variables.get(one.name or "", UNKNOWN)
    if type(now) is list and one.view in ("", "enumerate"):
        return now
    if type(now) in (dict, set):
        if len(now) != len(one.items):
            raise Raises("RuntimeError")
        if type(now) is set and not one.view and now == set(one.items):
            return [UNKNOWN] * len(now) if len(now) > 1 else list(now)
        if type(now) is dict and one.view not in ("", "enumerate") and tuple(now) == one.items:
            return list(getattr(now, one.view)())
    raise Unsure


def unnamed(value: Any, variables: Mapping[str, Any]) -> Any:
    """An iterator once its variable stands for something else, or is another frame's."""
    if not isinstance(value, Iter) or value.name is None:
        return value
    try:
        items = tuple(_current(value, variables))
    except (Unsure, Raises):
        return UNKNOWN
    return Iter(items, (variables[value.name],), value.at, None, value.view if value.view == "enumerate" else "", value.first)


def change(way: Way, part: Any, keeps: bool = False) -> None:
    """Data have changed that were `part` until then (UNKNOWN: whatever they were). What may be them is known no more. `keeps`: of a
    dict, its keys are as before."""
    after = _changed(way.frame(way.at, Point.RUN), part, keeps)
    assert after is not None
    way.locals, way.values, way.loops = dict(after.locals), dict(after.values), dict(after.loops)
    way.kept, way.below = after.kept, after.below


def changed(way: Way, node: ast.AST | None, before: Any, after: Any, keeps: bool = False) -> None:
    """The data that an expression gave are changed. If it names a variable, that is known to be so after it."""
    if type(after) is type(before) and repr(after) == repr(before):
        return
    named = isinstance(node, ast.Name) and way.locals.get(node.id) is before
    change(way, before, keeps)
    if isinstance(node, ast.Name) and named:
        way.locals[node.id] = way.values[node] = after


def _changed(frame: Frame | None, part: Any, keeps: bool) -> Frame | None:
    """A frame and those below it after a change."""
    if frame is None:
        return None
    variables = {name: spared(one, part) for name, one in frame.locals.items()}
    lost = {name for name, one in variables.items() if one is not frame.locals[name]}
    texts = frame.shown or {}
    obscure = {name for name in frame.kept if frame.locals.get(name, UNKNOWN) is UNKNOWN}
    lost |= {name for name in obscure if not texts.get(name, "").startswith("<")}
    loops = {}
    for at, one in frame.loops.items():
        keyed = isinstance(one, Iter) and one.name is not None and type(frame.locals.get(one.name)) is not list
        unsure = keyed and not keeps and (one.name in lost or frame.locals.get(one.name, UNKNOWN) is UNKNOWN)
        loops[at] = UNKNOWN if unsure else spared(one, part)
    reading = frame.reading
    if reading is not None and reading.source is not None:
        source = spared(reading.source, part)
        got = tuple(UNKNOWN if one is not UNKNOWN and spared(one, part) is UNKNOWN else one for one in reading.got)
        reading = None if source is UNKNOWN else reading._replace(source=source, got=got)
        if reading is None:
            frame = frame._replace(came=UNKNOWN)
    return frame._replace(
        locals=variables,
        kept=frame.kept - lost,
        values={node: spared(one, part) for node, one in frame.values.items()},
        loops=loops,
        reading=reading,
        below=_changed(frame.below, part, keeps),
    )


def spared(value: Any, part: Any) -> Any:
    """A value after a change: itself if it is another object than what changed."""
    if isinstance(value, Iter | Mapped):
        return UNKNOWN if any(spared(one, part) is not one for one in value.sources) else value
    if isinstance(value, Generator):
        frame = _changed(value.frame, part, False)
        return value if frame is None else Generator(frame)
    if value is UNKNOWN or isinstance(value, Function | Own) or not changes(value):
        return value
    return UNKNOWN if part is UNKNOWN or may_hold(value, part) else value
