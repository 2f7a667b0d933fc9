"""Calls with known results, from assertions on them."""

from __future__ import annotations

import ast
import dis
import re
from collections.abc import Iterator, Sequence

MOST = 5  # executions of a HumanEval problem
_OF_CONSTANTS = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
_LINE_BREAK = re.compile(r"\s*\n\s*")


def executions(test: str) -> list[tuple[str, str]]:
    """Return arguments and result of the first assertions in HumanEval's `check`.

    Raises:
        SyntaxError: the test does not parse.
        ValueError: it has no single `check`.
    """
    functions = [node for node in ast.parse(test).body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if len(functions) != 1:
        raise ValueError("the test has no single function `check`")
    calls = asserted(test, functions[0].body)
    return [(arguments, result) for function, arguments, result in calls if function == "candidate"][:MOST]


def asserted(source: str, statements: Sequence[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """Yield function, arguments and result of each assertion on a call."""
    for statement in statements:
        match statement:
            case ast.Assert(test=ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[expected])):
                result = _result(source, expected)
            case ast.Assert(test=ast.Call() as call):
                result = "True"
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call)):
                result = "False"
            case _:
                continue
        if isinstance(call.func, ast.Name):
            yield call.func.id, arguments_of(source, call), result


def arguments_of(source: str, call: ast.Call) -> str:
    """Return a call's arguments as written, on one line."""
    written = ast.get_source_segment(source, call)
    assert written is not None
    line = _one_line(written, call)
    return line[line.index("(") + 1 : -1]


def _result(test: str, expected: ast.expr) -> str:
    written = ast.get_source_segment(test, expected)
    assert written is not None
    try:
        ast.literal_eval(expected)
    except ValueError:
        code = compile(ast.Expression(expected), "", "eval")
        is_constant = {instruction.opname for instruction in dis.get_instructions(code)} <= _OF_CONSTANTS
        return repr(code.co_consts[0]) if is_constant else ast.unparse(expected)
    return _one_line(written, expected)


def _one_line(text: str, node: ast.expr) -> str:
    line = _LINE_BREAK.sub(" ", text)
    try:
        same = line == text or ast.dump(ast.parse(line, mode="eval").body) == ast.dump(node)
    except SyntaxError:
        same = False
    return line if same else ast.unparse(node)
