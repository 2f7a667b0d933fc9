"""A frame that runs, as far as it is known: the values of its variables, and of the expressions that have been evaluated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from remedy.eval.control_flow.evaluator import pure
from remedy.eval.control_flow.evaluator.values import (
    UNKNOWN,
    Function,
    Iter,
    Own,
    Raises,
    Unsure,
    changes,
    known,
    may_hold,
    members,
)
from remedy.eval.control_flow.options import Point

_NEW = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BinOp, ast.Constant)
_NEW_CALLS = frozenset({"list", "tuple", "set", "frozenset", "dict", "sorted", "split", "copy"})


@dataclass(slots=True, eq=False)
class Frame:
    """A frame; those below it are not changed, but replaced."""

    code: int
    at: int
    point: Point = Point.RUN
    locals: dict[str, Any] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    """Variables that are as the frame last showed them."""
    shown: Mapping[str, str] | None = None
    """The variables' texts when it last did, in their order; None: that is not known."""
    below: Frame | None = None
    values: dict[ast.AST, Any] = field(default_factory=dict)
    """What has been evaluated of the statement that runs."""
    loops: dict[int, Any] = field(default_factory=dict)
    """Iterators, by the place of what reads them."""
    came: Any = UNKNOWN
    """RETURNED: the value that came back."""
    awaited: bool = False
    """Whether what it has called is all that it calls there."""

    def copy(self, **different: Any) -> Frame:
        own = {"locals": dict(self.locals), "values": dict(self.values), "loops": dict(self.loops)}
        return replace(self, **{**own, **different})

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression whose parts have been evaluated. Raises Unsure or Raises."""
        if node in self.values:
            if (found := self.values[node]) is UNKNOWN:
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
                return pure.attempt(set, self._members(parts))
            case ast.Dict(keys=keys, values=parts):
                pairs = list(zip(self._members([one for one in keys if one]), self._members(parts)))
                return pure.attempt(dict, pairs if len(pairs) == len(keys) else known(UNKNOWN))
            case ast.Slice():
                parts = [one or ast.Constant(None) for one in (node.lower, node.upper, node.step)]
                return slice(*self._members(parts))
            case ast.BinOp(left=left, op=op, right=right):
                return pure.binary(type(op).__name__, self.value(left), self.value(right))
            case ast.AugAssign(target=left, op=op, value=right):
                return pure.augmented(type(op).__name__, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(ops=[ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()])):
                raise Unsure  # the compiler may have turned the comparison round
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not pure.truth(self.value(operand))
            case ast.UnaryOp(op=op, operand=operand):
                return pure.attempt(pure.UNARY[type(op).__name__], self.value(operand))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if pure.truth(self.value(test)) else orelse)
            case ast.Subscript(value=value, slice=key):
                return pure.attempt(operator.getitem, self.value(value), self.value(key))
            case ast.Attribute(value=value, attr=name):
                return _attribute(self.value(value), name)
            case ast.Call():
                return self._called(node)
        raise Unsure

    def known_or_not(self, node: ast.AST | None) -> Any:
        """A value, UNKNOWN where it is not known."""
        try:
            return self.value(node)
        except (Unsure, Raises):
            return UNKNOWN

    def iterator(self, node: ast.AST | None) -> Any:
        """Return what reading an expression's value goes through. Raises Unsure or Raises."""
        value = self.value(node)
        if isinstance(value, Iter):
            return value
        items = known(value) if type(value) in (str, range) else tuple(pure.listed(value))
        new = isinstance(node, _NEW) or (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            new = name in _NEW_CALLS
        return Iter(items, tuple(members(value)) if new else (value,))

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The arguments by position and by name, UNKNOWN where they are not known. Raises Unsure where their number is not."""
        given: list[Any] = []
        for one in node.args:
            if isinstance(one, ast.Starred):
                given += pure.listed(self.value(one.value))
            elif isinstance(one, ast.Tuple) and getattr(node.func, "id", "") == "isinstance":
                given.append(tuple(map(self.known_or_not, one.elts)))
            else:
                given.append(self.known_or_not(one))
        if any(one.arg is None for one in node.keywords):
            raise Unsure
        return given, {str(one.arg): self.known_or_not(one.value) for one in node.keywords}

    def _called(self, node: ast.Call) -> Any:
        given, named = self.arguments(node)
        callee = self.value(node.func)
        if isinstance(callee, Own) and isinstance(node.func, ast.Attribute) and callee.name.startswith("."):
            return pure.method(self.value(node.func.value), node.func.attr, given, named)
        return pure.call(callee.name, given, named) if isinstance(callee, Own) else known(UNKNOWN)

    def _members(self, parts: Iterable[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for one in parts:
            found += pure.listed(self.value(one.value)) if isinstance(one, ast.Starred) else [self.value(one)]
        return [known(one) for one in found]

    def bind(self, name: str, value: Any) -> None:
        """A variable gets a value."""
        self.locals[name] = UNKNOWN if isinstance(value, Iter) else value  # two may read it now
        self.kept -= {name}


def _attribute(owner: Any, name: str) -> Own:
    if isinstance(owner, Own):
        return Own(f"{owner.name}.{name}")
    if not hasattr(type(known(owner)), name):
        raise Raises("AttributeError")
    return Own(f".{name}")


def change(frame: Frame | None, part: Any) -> None:
    """Data have changed that were `part` until then (UNKNOWN: whatever they were). What may be them is known no more."""
    while frame is not None:
        before, shown = frame.locals, frame.shown or {}
        frame.locals = {name: _spared(one, part) for name, one in before.items()}
        obscure = {name for name in frame.kept if before.get(name, UNKNOWN) is UNKNOWN}
        lost = {name for name in obscure if not shown.get(name, "").startswith("<")}
        frame.kept -= lost | {name for name, one in frame.locals.items() if one is not before[name]}
        frame.values = {node: _spared(one, part) for node, one in frame.values.items()}
        frame.loops = {at: _spared(one, part) for at, one in frame.loops.items()}
        frame.below = frame.below and frame.below.copy()
        frame = frame.below


def _spared(value: Any, part: Any) -> Any:
    """A value after a change: itself if it is another object than what changed."""
    if isinstance(value, Iter):
        return UNKNOWN if any(_spared(one, part) is not one for one in value.sources) else value
    if value is UNKNOWN or isinstance(value, Function | Own) or not changes(value):
        return value
    return UNKNOWN if part is UNKNOWN or may_hold(value, part) else value
