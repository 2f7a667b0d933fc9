"""Executions of HumanEval: calls with known results, taken from each problem's tests.

The rule: of the statements of `check(candidate)` that are `assert candidate(..) == X`, `assert candidate(..)` or
`assert not candidate(..)`, the first five.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

MOST = 5
_LINE_BREAK = re.compile(r"\s*\n\s*")


def executions(test: str) -> list[tuple[str, str]]:
    """(arguments, repr of the result) of a problem's first five such assertions, on one line each as written.

    Raises:
        SyntaxError: the test does not parse.
        ValueError: it has no function `check`.
    """
    functions = [node for node in ast.parse(test).body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if len(functions) != 1:
        raise ValueError("the test has no single function `check`")
    return list(_calls(test, functions[0]))[:MOST]


def _calls(test: str, check: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    for statement in check.body:
        match statement:
            case ast.Assert(test=ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[expected])):
                result = _result(test, expected)
            case ast.Assert(test=ast.Call() as call):
                result = "True"
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call)):
                result = "False"
            case _:
                continue
        if isinstance(call.func, ast.Name) and call.func.id == "candidate":
            yield _arguments(test, call), result


def _arguments(test: str, call: ast.Call) -> str:
    written = ast.get_source_segment(test, call)
    assert written is not None
    return _one_line(written[written.index("(") + 1 : -1])


def _result(test: str, expected: ast.expr) -> str:
    """The expected value as written, with constant arithmetic, which is no literal, worked out."""
    written = ast.get_source_segment(test, expected)
    assert written is not None
    try:
        ast.literal_eval(expected)
    except ValueError:
        return ast.unparse(_Arithmetic().visit(expected))
    return _one_line(written)


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)


class _Arithmetic(ast.NodeTransformer):
    operators: ClassVar[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
    }

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = self.generic_visit(node)  # type: ignore[assignment]
        match node:
            case ast.BinOp(ast.Constant(int() | float() as left), op, ast.Constant(int() | float() as right)):
                if type(op) in self.operators:
                    return ast.Constant(self.operators[type(op)](left, right))
        return node
