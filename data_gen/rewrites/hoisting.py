"""Parts of expressions moved into statements before them.

What is evaluated, and in which order, stays the same: a part that is evaluated before one that moves, and could change,
moves too. Parts that are evaluated on a condition, later or repeatedly stay.

Two assumptions: looking a method up has no effect, and variables that are read have values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from remedy.data_gen.rewrites.names import Names, looks_at_names

_STOPS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_OWN = {
    ast.AnnAssign: "value",
    ast.Assign: "value",
    ast.Expr: "value",
    ast.Return: "value",
    ast.If: "test",
    ast.For: "iter",
}
"""The expression that a statement evaluates first."""
_FIELDS = ("body", "orelse", "finalbody")
_COMPUTED = (
    *(ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.IfExp, ast.JoinedStr, ast.Subscript, ast.UnaryOp),
    *(ast.DictComp, ast.ListComp, ast.SetComp),
)


class Hoister:
    """Rewrite of `g(h(x) + 1)` as `step1 = h(x)`, `step2 = step1 + 1`, `g(step2)`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.before: list[ast.stmt] = []
        self.changed = False

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        """Say if a part of `parent` moves; None: a statement's whole expression."""
        if parent is None or not isinstance(part, _COMPUTED):
            return False
        return not (isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant))

    def take_out(self, part: ast.expr) -> ast.expr:
        """Put statements that compute the part into `before`; return its replacement."""
        name = self.names.fresh("step")
        self.before.append(ast.Assign([ast.Name(name, ast.Store())], part))
        return ast.Name(name, ast.Load())

    def rewrite(self, functions: Sequence[ast.FunctionDef]) -> bool:
        """Rewrite functions; say if anything changed."""
        for function in functions:
            self.visit_function(function)
        return self.changed

    def visit_function(self, function: ast.FunctionDef) -> None:
        """Rewrite a function's body, without functions inside it."""
        if not looks_at_names(function):
            function.body = self.block(function.body)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements, each after those that compute its moved parts."""
        result: list[ast.stmt] = []
        for statement in statements:
            outer, self.before = self.before, []
            self._statement(statement)
            self.changed |= bool(self.before)
            result += [*self.before, statement]
            self.before = outer
        return result

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        key = _OWN.get(type(statement), "")
        match statement:
            case ast.AugAssign(target=ast.Name(id=name)) if name not in self.names.shared:
                key = "value"
        own = getattr(statement, key, None)
        if own is not None and not any(isinstance(node, _STOPS) for node in ast.walk(own)):
            setattr(statement, key, self.part(own, None))
        for field in _FIELDS:
            if inner := getattr(statement, field, None):
                setattr(statement, field, self.block(inner))
        for case in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            case.body = self.block(case.body)

    def part(self, expression: ast.expr, parent: ast.expr | None) -> ast.expr:
        """Return the expression after its wanted parts have moved, or its replacement."""
        operands = _operands(expression)
        needed = [number for number, (get, _) in enumerate(operands) if self._needs(get(), expression)]
        for number, (get, put) in enumerate(operands[: needed[-1] + 1] if needed else []):
            new = self.part(get(), expression)
            put(new if number == needed[-1] or self._stable(new) else Hoister.take_out(self, new))
        return self.take_out(expression) if self.wanted(expression, parent) else expression

    def _needs(self, part: ast.expr, parent: ast.expr) -> bool:
        return self.wanted(part, parent) or any(self._needs(get(), part) for get, _ in _operands(part))

    def _stable(self, part: ast.expr) -> bool:
        match part:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.Name(id=name):
                return name not in self.names.shared
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return all(map(self._stable, elements))
        return False


class _Chains(Hoister):
    """Rewrite of `s.strip().lower()` as `step1 = s.strip()`, `step1.lower()`."""

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        match part, parent:
            case ast.Call(func=ast.Attribute()), ast.Call(func=ast.Attribute(value=receiver)):
                return receiver is part
        return False


_Operand = tuple[Callable[[], ast.expr], Callable[[ast.expr], None]]
"""Reader and writer of a part of an expression."""


def _operands(expression: ast.expr) -> list[_Operand]:
    """List the parts that are always evaluated once, first and in order."""
    match expression:
        case ast.BinOp():
            return _fields(expression, "left", "right")
        case ast.UnaryOp():
            return _fields(expression, "operand")
        case ast.Attribute():
            return _fields(expression, "value")
        case ast.IfExp():
            return _fields(expression, "test")
        case ast.BoolOp(values=values):
            return _items(values)[:1]
        case ast.Compare(comparators=values):  # the third value of a chain may not be reached
            return _fields(expression, "left") + _items(values)[:1]
        case ast.Subscript(slice=ast.Slice() as bounds):
            return _fields(expression, "value") + _fields(bounds, "lower", "upper", "step")
        case ast.Subscript(slice=index) if not any(isinstance(node, ast.Slice) for node in ast.walk(index)):
            return _fields(expression, "value", "slice")
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            return [] if _starred(values) else _items(values)
        case ast.Dict(keys=keys, values=values) if all(keys):
            return [item for pair in zip(_items(keys), _items(values)) for item in pair]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return _fields(expression.generators[0], "iter")
        case ast.Call(func=function, args=arguments, keywords=keywords):
            receiver = _fields(function, "value") if isinstance(function, ast.Attribute) else []
            if _starred(arguments) or any(keyword.arg is None for keyword in keywords):
                return receiver
            return receiver + _items(arguments) + [_fields(keyword, "value")[0] for keyword in keywords]
    return []


def _starred(parts: list[ast.expr]) -> bool:
    return any(isinstance(part, ast.Starred) for part in parts)


def _fields(node: ast.AST, *names: str) -> list[_Operand]:
    present = (name for name in names if getattr(node, name) is not None)
    return [(partial(getattr, node, name), partial(setattr, node, name)) for name in present]


def _items(parts: Any) -> list[_Operand]:
    return [(partial(parts.__getitem__, n), partial(parts.__setitem__, n)) for n in range(len(parts))]


def temporaries(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write nested expressions as one operation a line."""
    return Hoister(names).rewrite(functions)


def chains(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write method chains as one call a line."""
    return _Chains(names).rewrite(functions)
