"""Parts of expressions moved into statements before them.

What is evaluated, and in which order, stays the same: a part that is evaluated before one that moves, and could change,
moves too. Parts that are evaluated on a condition, later or repeatedly stay.

Two assumptions: looking a method up has no effect, and variables that are read have values.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from remedy.data_gen.rewrites.names import Names, looks_at_names

S = TypeVar("S", bound=ast.stmt)
_STOPS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_FIELDS = ("body", "orelse", "finalbody")


class Hoister(ABC):
    """Rewrite of the statements of functions, in place."""

    stem = "step"

    def __init__(self, names: Names) -> None:
        self.names = names
        self.before: list[ast.stmt] = []
        self.changed = False

    @abstractmethod
    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        """Say if a part of `parent` moves; None: a statement's whole expression."""

    def take_out(self, part: ast.expr) -> ast.expr:
        """Put statements that compute the part into `before`; return its replacement."""
        name = self.names.fresh(self.stem)
        self.before.append(ast.Assign([ast.Name(name, ast.Store())], part))
        return ast.Name(name, ast.Load())

    def rewrite(self, functions: Sequence[ast.FunctionDef]) -> bool:
        """Rewrite functions; say if anything changed."""
        for function in functions:
            self.visit_function(function)
        return self.changed

    def visit_function(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Rewrite a function's body, without functions inside it."""
        if not looks_at_names(function):
            function.body = self.block(function.body)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements, each after those that compute its moved parts."""
        result: list[ast.stmt] = []
        for statement in statements:
            outer, self.before = self.before, []
            self._statement(statement)
            if self.before:
                self.changed = True
            result += [*self.before, statement]
            self.before = outer
        return result

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Return(value=ast.expr()) | ast.Assign() | ast.Expr() | ast.AnnAssign(value=ast.expr()):
                self._own(statement, "value")
            case ast.AugAssign(target=ast.Name(id=name)) if name not in self.names.shared:
                self._own(statement, "value")
            case ast.If():
                self._own(statement, "test")
            case ast.For():
                self._own(statement, "iter")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
        before, self.before = self.before, []
        for field in _FIELDS:
            inner = getattr(statement, field, None)
            if inner:
                setattr(statement, field, self.block(inner))
        for case in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            case.body = self.block(case.body)
        self.before = before

    def _own(self, statement: ast.stmt, field: str) -> None:
        expression: ast.expr = getattr(statement, field)
        if any(isinstance(node, _STOPS) for node in ast.walk(expression)):
            return
        setattr(statement, field, self.part(expression, None))

    def part(self, expression: ast.expr, parent: ast.expr | None) -> ast.expr:
        """Return the expression after its wanted parts have moved, or its replacement."""
        operands = _operands(expression)
        needed = [self._needs(get(), expression) for get, _ in operands]
        last = max((number for number, needs in enumerate(needed) if needs), default=-1)
        for number, (get, put) in enumerate(operands[: last + 1]):
            new = self.part(get(), expression)
            if number < last and not self._stable(new):
                new = Hoister.take_out(self, new)
            put(new)
        return self.take_out(expression) if self.wanted(expression, parent) else expression

    def _needs(self, part: ast.expr, parent: ast.expr) -> bool:
        return self.wanted(part, parent) or any(self._needs(get(), part) for get, _ in _operands(part))

    def _stable(self, part: ast.expr) -> bool:
        match part:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name not in self.names.shared
            case ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return all(self._stable(element) for element in elements)
            case ast.Slice():
                return all(self._stable(bound) for bound in (part.lower, part.upper, part.step) if bound is not None)
        return False


_Operand = tuple[Callable[[], ast.expr], Callable[[ast.expr], None]]


def _operands(expression: ast.expr) -> list[_Operand]:
    """List the parts that are always evaluated once, first and in order."""
    match expression:
        case ast.BinOp():
            return [_field(expression, "left"), _field(expression, "right")]
        case ast.UnaryOp():
            return [_field(expression, "operand")]
        case ast.Attribute(ctx=ast.Load()):
            return [_field(expression, "value")]
        case ast.Subscript(ctx=ast.Load(), slice=ast.Slice() as bounds):
            given = [name for name in ("lower", "upper", "step") if getattr(bounds, name) is not None]
            return [_field(expression, "value"), *(_field(bounds, name) for name in given)]
        case ast.Subscript(ctx=ast.Load(), slice=index) if not any(isinstance(n, ast.Slice) for n in ast.walk(index)):
            return [_field(expression, "value"), _field(expression, "slice")]
        case ast.Compare():  # the third value of a chain may not be reached
            return [_field(expression, "left"), _item(expression.comparators, 0)]
        case ast.BoolOp():
            return [_item(expression.values, 0)]
        case ast.IfExp():
            return [_field(expression, "test")]
        case (
            ast.List(ctx=ast.Load(), elts=elements) | ast.Tuple(ctx=ast.Load(), elts=elements) | ast.Set(elts=elements)
        ):
            return [] if _starred(elements) else [_item(elements, number) for number in range(len(elements))]
        case ast.Dict(keys=keys, values=values) if all(keys):
            return [_item(side, n) for n in range(len(keys)) for side in (keys, values)]  # type: ignore[arg-type]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [_field(expression.generators[0], "iter")]
        case ast.Call(func=function, args=arguments, keywords=keywords):
            receiver = [_field(function, "value")] if isinstance(function, ast.Attribute) else []
            if _starred(arguments) or any(keyword.arg is None for keyword in keywords):
                return receiver
            named = [_field(keyword, "value") for keyword in keywords]
            return [*receiver, *(_item(arguments, number) for number in range(len(arguments))), *named]
    return []


def _starred(parts: list[ast.expr]) -> bool:
    return any(isinstance(part, ast.Starred) for part in parts)


def _field(node: ast.AST, name: str) -> _Operand:
    return (lambda: getattr(node, name)), (lambda new: setattr(node, name, new))


def _item(parts: list[ast.expr], number: int) -> _Operand:
    return (lambda: parts[number]), (lambda new: parts.__setitem__(number, new))


_COMPUTED = (
    *(ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.IfExp, ast.JoinedStr, ast.Subscript, ast.UnaryOp),
    *(ast.DictComp, ast.ListComp, ast.SetComp),
)


class _Temporaries(Hoister):
    """Rewrite of `g(h(x) + 1)` as `step1 = h(x)`, `step2 = step1 + 1`, `g(step2)`."""

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        if parent is None or not isinstance(part, _COMPUTED):
            return False
        return not (isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant))


class _Chains(Hoister):
    """Rewrite of `s.strip().lower()` as `step1 = s.strip()`, `step1.lower()`."""

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        match part, parent:
            case ast.Call(func=ast.Attribute()), ast.Call(func=ast.Attribute(value=receiver)):
                return receiver is part
        return False


def temporaries(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write nested expressions as one operation a line."""
    return _Temporaries(names).rewrite(functions)


def chains(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write method chains as one call a line."""
    return _Chains(names).rewrite(functions)
