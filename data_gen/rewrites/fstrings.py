"""f-strings into concatenations. `format(x)` is what an f-string calls; `str(x)` may differ for a class with its own."""

from __future__ import annotations

import ast
from functools import reduce

from remedy.data_gen.rewrites.names import Names

_CONVERSIONS = {ord("s"): "str", ord("r"): "repr", ord("a"): "ascii"}


class _Concatenations(ast.NodeTransformer):
    """`f"a{x}b"` becomes `'a' + format(x) + 'b'`."""

    changed = False

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.changed = True
        parts = [self._piece(value) for value in node.values] or [ast.Constant("")]
        return reduce(lambda left, right: ast.BinOp(left, ast.Add(), right), parts)

    def _piece(self, value: ast.expr) -> ast.expr:
        if not isinstance(value, ast.FormattedValue):
            return value
        inner = self.visit(value.value)
        if value.conversion in _CONVERSIONS:
            inner = _call(_CONVERSIONS[value.conversion], inner)
        return (
            _call("format", inner)
            if value.format_spec is None
            else _call("format", inner, self.visit(value.format_spec))
        )


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def fstrings(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Rewrite the functions in place; returns whether anything changed.

    A program with its own `format` or the like is left alone.
    """
    if names.bound & {"format", *_CONVERSIONS.values()}:
        return False
    rewriter = _Concatenations()
    for function in functions:
        function.body = [rewriter.visit(statement) for statement in function.body]
    return rewriter.changed
