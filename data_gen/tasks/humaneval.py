"""Executions of HumanEval: calls with known results, taken from each problem's tests.

The rule: of the statements of `check(candidate)` that are `assert candidate(..) == X`, `assert candidate(..)` or
`assert not candidate(..)`, the first five.
"""

from __future__ import annotations

import ast
import dis
import re
from collections.abc import Iterator

MOST = 5
_OF_CONSTANTS = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
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
    """The expected value as written, with constant arithmetic, which is no literal, worked out as the compiler does."""
    written = ast.get_source_segment(test, expected)
    assert written is not None
    try:
        ast.literal_eval(expected)
    except ValueError:
        code = compile(ast.Expression(expected), "", "eval")
        is_constant = {one.opname for one in dis.get_instructions(code)} <= _OF_CONSTANTS
        return repr(code.co_consts[0]) if is_constant else ast.unparse(expected)
    return _one_line(written)


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)
