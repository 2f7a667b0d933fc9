"""A program's syntax tree, found by the places in the source that its instructions come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from remedy.eval.control_flow.bytecode import Code
from remedy.eval.control_flow.evaluator.pure import SAME_VERSION
from remedy.eval.control_flow.flow import ControlFlow

Position = tuple[int, int, int, int]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OTHERS = (ast.AugAssign, ast.Assert, ast.ExceptHandler)
"""Nodes that are no expressions and have instructions of interest."""


_OPPOSITE = {ast.Is: ast.IsNot(), ast.IsNot: ast.Is(), ast.In: ast.NotIn(), ast.NotIn: ast.In()}


class _Folded(ast.NodeTransformer):
    """Makes of `not a in b` what the compiler makes of it, `a not in b`."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        one = node.operand
        if isinstance(node.op, ast.Not) and isinstance(one, ast.Compare) and len(one.ops) == 1:
            if opposite := _OPPOSITE.get(type(one.ops[0])):
                one.ops = [opposite]
                return one
        return node


class Source:
    """What each instruction evaluates. Nothing is said of one whose place stands for several expressions."""

    def __init__(self, flow: ControlFlow) -> None:
        self.moves = flow.moves
        self.names = flow.moves.effects.names
        try:
            tree: ast.AST = _Folded().visit(ast.parse(flow.program.code))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        nodes = list(ast.walk(tree))
        if not SAME_VERSION and any(isinstance(one, ast.JoinedStr) for one in nodes):
            nodes = []  # what is in f-strings then has other places
        found = _by_position(nodes)
        self.of = [[found.get(one.position) for one in code.instructions] for code in flow.moves.codes]
        """The nodes of all instructions, by code."""
        self.codes: dict[ast.AST, int] = {}
        """The code objects of lambdas and comprehensions."""
        self.made: dict[int, ast.AST] = {}
        """The other way round."""
        self.stored: dict[ast.AST, ast.expr] = {}
        """What is stored in a target, as far as it is one expression."""
        for code, of in zip(flow.moves.codes, self.of):
            for one, node in zip(code.instructions, of):
                if one.code is not None and isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
                    self.codes[node] = one.code
                    self.made[one.code] = node
        for node in nodes:
            for target, value in _assigned(node):
                self.stored[target] = value
        self.joined = {
            line
            for node in nodes
            if isinstance(node, ast.expr | ast.stmt) and not hasattr(node, "body") and node.end_lineno != node.lineno
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        """Lines of what is written over several, at which some of it may have been evaluated."""
        self._compared = {(code.number, at): nth for code in flow.moves.codes for at, nth in _comparisons(code)}

    def compared(self, code: int, at: int, node: ast.Compare) -> int | None:
        """Of the comparisons in an expression that one that an instruction makes; None: that is not known."""
        if len(node.ops) > 1 and any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            return None  # some have no instruction of their own
        return self._compared[code, at] % len(node.ops)


def _by_position(nodes: list[ast.AST]) -> dict[Position, ast.AST]:
    found: dict[Position, ast.AST | None] = {}
    within = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in _parts(node)}
    for node in nodes:
        if isinstance(node, (ast.expr, *_OTHERS)) and id(node) not in within:
            for position in _positions(node):
                found[position] = None if position in found else node
        for decorator in getattr(node, "decorator_list", []):
            for position in _positions(decorator):
                found[position] = None  # where it is applied too
    return {position: node for position, node in found.items() if node is not None}


def _parts(node: ast.JoinedStr) -> Iterator[ast.AST]:
    """What has the place of the whole text: its pieces, and theirs."""
    for part in node.values:
        yield part
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            yield part.format_spec
            yield from _parts(part.format_spec)


def _positions(node: ast.AST) -> Iterator[Position]:
    line, column, end = getattr(node, "lineno"), getattr(node, "col_offset"), getattr(node, "end_lineno")
    yield line, column, end, getattr(node, "end_col_offset")
    attribute = node.func if isinstance(node, ast.Call) else node
    if isinstance(attribute, ast.Attribute) and attribute.end_lineno and attribute.end_lineno != attribute.lineno:
        start = (attribute.end_col_offset or 0) - len(attribute.attr)
        yield attribute.end_lineno, start, end, getattr(node, "end_col_offset")


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _paired(target, node.value)
    elif isinstance(node, ast.NamedExpr) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        assert node.value is not None
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, node  # type: ignore[misc]


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    yield target, value
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        plain = not any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts))
        if plain and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts):
                yield from _paired(one, other)


def _comparisons(code: Code) -> Iterator[tuple[int, int]]:
    seen: dict[Position, int] = {}
    for at, one in enumerate(code.instructions):
        if one.op in ("COMPARE_OP", "IS_OP", "CONTAINS_OP"):
            nth = seen.get(one.position, 0)
            seen[one.position] = nth + 1
            yield at, nth


__all__ = ["COMPREHENSIONS", "Source"]
