"""Operations of a program's lines, to attribute failures to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from remedy.data_gen.execution.program import Event, Frame, Program, Value

OPERATIONS = ("string method", "index or slice", "loop or counter", "arithmetic", "other")
"""A line with several operations counts as the first of these."""

# Of compound statements, what runs with their first line: the lines of a body are statements of their own.
_HEADERS = {
    ast.For: ("target", "iter"),
    ast.AsyncFor: ("target", "iter"),
    ast.While: ("test",),
    ast.If: ("test",),
    ast.With: ("items",),
    ast.Match: ("subject",),
    ast.Try: (),
    ast.FunctionDef: (),
    ast.AsyncFunctionDef: (),
    ast.ClassDef: (),
}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Invert)
_STRING_METHODS = {name for name in dir(str) if not name.startswith("_")}
_STRING_ONLY = _STRING_METHODS.difference(*map(dir, (list, tuple, dict, set, int, float)))


def operation_of(program: Program, source: str, state: Mapping[str, Value] | None = None) -> str:
    """Return the operation of a source line. `state` shows which variables hold strings."""
    try:
        tree = ast.parse(program.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # each is raised for some source text
        return "other"
    lines = program.physical_lines()
    numbers = {number for number, line in enumerate(lines, start=1) if line == source}
    kinds: set[str] = set()
    for statement in _statements(tree):
        parts = _own_parts(statement)
        nodes = [statement, *(node for part in parts for node in ast.walk(part))]
        # Of any node, since a statement over several lines fires an event at each.
        if any(getattr(node, "lineno", 0) in numbers for node in nodes):
            kinds.update(_kinds(statement, nodes[1:], state or {}))
    return next((kind for kind in OPERATIONS if kind in kinds), "other")


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    todo = [tree]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield child
                todo.append(child)


def causing_frame(frames: Sequence[Frame], number: int, at_value: bool) -> int:
    """Return the frame whose line caused an error in frame `number`.

    A wrong value comes from its own line. A wrong state or action comes from the line before it in the same call, or
    from the calling line.
    """
    if at_value or number == 0:
        return number
    latest: list[int] = []  # per open call, its latest line
    for position, frame in enumerate(frames[:number]):
        if frame.event is Event.CALL:
            latest.append(position)
        elif frame.event is Event.RETURN and latest:
            latest.pop()
        elif latest:
            latest[-1] = position
    return latest[-1] if latest else number - 1


def _own_parts(statement: ast.AST) -> list[ast.AST]:
    """Return a simple statement's parts, or those of a compound one's header."""
    if isinstance(statement, ast.ExceptHandler):
        return [statement.type] if statement.type else []
    if isinstance(statement, ast.match_case):
        return [statement.guard] if statement.guard else []
    fields = _HEADERS.get(type(statement))
    if fields is None:
        return list(ast.iter_child_nodes(statement))
    parts: list[ast.AST] = []
    for field in fields:
        value = getattr(statement, field)
        parts += value if isinstance(value, list) else [value]
    return parts


def _kinds(statement: ast.AST, nodes: Iterable[ast.AST], state: Mapping[str, Value]) -> Iterator[str]:
    match statement:
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=ast.Constant(value=int())):
            yield "loop or counter"
        case ast.For() | ast.AsyncFor() | ast.While():
            yield "loop or counter"
        case ast.AugAssign(op=operator) if isinstance(operator, _ARITHMETIC + _BITS):
            yield "arithmetic"
    for node in nodes:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _on_string(node, state)):
            yield "string method"
        elif isinstance(node, ast.Subscript):
            yield "index or slice"
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield "loop or counter"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC + _BITS):
            yield "arithmetic"


def _on_string(call: ast.Call, state: Mapping[str, Value]) -> bool:
    """Return whether a call is a string method, by its name or its receiver."""
    match call.func:
        case ast.Attribute(value=ast.Constant(value=str())):
            return True
        case ast.Attribute(value=ast.Name(id=name), attr=method) if name in state:
            return state[name].is_string and method in _STRING_METHODS
        case ast.Attribute(attr=method):
            return method in _STRING_ONLY
    return False
