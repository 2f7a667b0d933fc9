"""Parts of expressions moved into statements before them.

What is evaluated, and in which order, stays the same: a part that is evaluated before one that moves, and could change,
moves too. Parts that are evaluated on a condition, later or repeatedly stay.

Two assumptions: looking a method up has no effect, and variables that are read have values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from remedy.data_gen.rewrites.names import Names

_SEES_NAMES = {"locals", "vars", "dir", "globals", "eval", "exec"}
_STOPS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_FIRST = {
    **dict.fromkeys((ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Expr, ast.Return), "value"),
    **dict.fromkeys((ast.Attribute, ast.keyword), "value"),
    **dict.fromkeys((ast.If, ast.IfExp), "test"),
    **dict.fromkeys((ast.For, ast.comprehension), "iter"),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "generators"),
    **dict.fromkeys((ast.List, ast.Set, ast.Tuple), "elts"),
    ast.BinOp: "left right",
    ast.BoolOp: "values",
    ast.Call: "func args keywords",
    ast.Compare: "left comparators",
    ast.Slice: "lower upper step",
    ast.Subscript: "value slice",
    ast.UnaryOp: "operand",
}
"""The fields that a node evaluates once and first, in order."""
_FIRST_ITEM_ONLY = ("comparators", "generators", "values")
"""Fields whose other items are evaluated on a condition or repeatedly."""
_COMPUTED = (
    *(ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.IfExp, ast.JoinedStr, ast.Subscript, ast.UnaryOp),
    *(ast.DictComp, ast.ListComp, ast.SetComp),
)


class Hoister(ast.NodeTransformer):
    """Rewrite of `g(h(x) + 1)` as `step1 = h(x)`, `step2 = step1 + 1`, `g(step2)`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.before: list[ast.stmt] = []

    def wanted(self, part: ast.expr, parent: ast.AST) -> bool:
        """Say if a part of an expression or statement moves."""
        if isinstance(parent, ast.stmt) or not isinstance(part, _COMPUTED):
            return False
        return not (isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant))

    def take_out(self, part: Any) -> ast.expr:
        """Put statements that compute the part into `before`; return its replacement."""
        name = self.names.fresh("step")
        self.before.append(ast.Assign([ast.Name(name, ast.Store())], part))
        return ast.Name(name, ast.Load())

    def rewrite(self, functions: list[ast.FunctionDef]) -> None:
        """Rewrite functions, but those that may look their own variables up by name."""
        for function in functions:
            if not any(isinstance(node, ast.Name) and node.id in _SEES_NAMES for node in ast.walk(function)):
                self.generic_visit(function)

    def visit(self, node: ast.AST) -> Any:
        """Put the statements that compute its moved parts before a statement, and enter its blocks."""
        if isinstance(node, ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return node
        outer, self.before = self.before, []
        stops = any(isinstance(inner, _STOPS) for parts, key in _operands(node) for inner in ast.walk(parts[key]))
        reads_target_before = isinstance(node, ast.AugAssign) and not self.stable(node.target)
        if not stops and not reads_target_before:
            self._move_parts(node)
        moved, self.before = self.before, outer
        self.generic_visit(node)
        return [*moved, node] if moved else node

    def _move_parts(self, node: ast.AST) -> None:
        operands = [*_operands(node)]
        needed = [number for number, (parts, key) in enumerate(operands) if self._needs(parts[key], node)]
        for number, (parts, key) in enumerate(operands[: needed[-1] + 1] if needed else []):
            wanted = self.wanted(parts[key], node)
            self._move_parts(parts[key])
            if wanted:
                parts[key] = self.take_out(parts[key])
            elif number < needed[-1] and not self.stable(parts[key]):
                parts[key] = Hoister.take_out(self, parts[key])

    def _needs(self, part: ast.expr, parent: ast.AST) -> bool:
        return self.wanted(part, parent) or any(self._needs(parts[key], part) for parts, key in _operands(part))

    def stable(self, part: ast.expr) -> bool:
        """Say if a part has the same value after the parts that follow it."""
        match part:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.Name(id=name):
                return name not in self.names.shared
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return all(map(self.stable, elements))
        return False


class _Chains(Hoister):
    """Rewrite of `s.strip().lower()` as `step1 = s.strip()`, `step1.lower()`."""

    def wanted(self, part: ast.expr, parent: ast.AST) -> bool:
        match part, parent:
            case ast.Call(func=ast.Attribute()), ast.Call(func=ast.Attribute(value=receiver)):
                return receiver is part
        return False


def _operands(node: ast.AST) -> Iterator[tuple[Any, Any]]:
    """Yield the list or the fields, and the key in it, of each part that is always evaluated, once, first and in order."""
    for parts, key in _items(node):
        match parts[key]:
            case None | ast.Starred() | ast.keyword(arg=None):
                return  # what is unpacked is read before the parts after it
            case ast.keyword() | ast.Slice() | ast.comprehension() as inner:
                yield from _operands(inner)
            case ast.Attribute() as method if key == "func":
                yield from _operands(method)
            case _:
                yield parts, key


def _items(node: ast.AST) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, ast.Dict):
        yield from ((parts, number) for number in range(len(node.keys)) for parts in (node.keys, node.values))
    for name in _FIRST.get(type(node), "").split():
        field = getattr(node, name)
        if isinstance(field, list):
            yield from ((field, number) for number in range(len(field)) if number == 0 or name not in _FIRST_ITEM_ONLY)
        elif field is not None:
            yield vars(node), name


def temporaries(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> None:
    """Write nested expressions as one operation a line."""
    Hoister(names).rewrite(functions)


def chains(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> None:
    """Write method chains as one call a line."""
    _Chains(names).rewrite(functions)
