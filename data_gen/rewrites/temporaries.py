"""Nested expressions into temporaries, and method chains into one call a line."""

from __future__ import annotations

import ast

from remedy.data_gen.rewrites.hoisting import Hoister
from remedy.data_gen.rewrites.names import Names

_COMPUTED = (
    ast.BinOp,
    ast.BoolOp,
    ast.Call,
    ast.Compare,
    ast.DictComp,
    ast.IfExp,
    ast.JoinedStr,
    ast.ListComp,
    ast.SetComp,
    ast.Subscript,
    ast.UnaryOp,
)


class _Temporaries(Hoister):
    """`g(h(x) + 1)` becomes `step1 = h(x)`, `step2 = step1 + 1`, `g(step2)`."""

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        if parent is None or not isinstance(part, _COMPUTED):
            return False
        return not (isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant))


class _Chains(Hoister):
    """`s.strip().lower()` becomes `step1 = s.strip()`, `step1.lower()`."""

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        match part, parent:
            case ast.Call(func=ast.Attribute()), ast.Call(func=ast.Attribute(value=receiver)):
                return receiver is part
        return False


def temporaries(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Rewrite the functions in place; returns whether anything changed."""
    return _hoist(_Temporaries(names), functions)


def chains(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Rewrite the functions in place; returns whether anything changed."""
    return _hoist(_Chains(names), functions)


def _hoist(hoister: Hoister, functions: list[ast.FunctionDef]) -> bool:
    for function in functions:
        hoister.visit_function(function)
    return hoister.changed
