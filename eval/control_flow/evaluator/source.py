"""A program's syntax tree, found by the places in the source that its instructions come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from remedy.eval.control_flow.bytecode import Code
from remedy.eval.control_flow.evaluator.pure import SAME_VERSION
from remedy.eval.control_flow.flow import ControlFlow

Position = tuple[int, int, int, int]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_OTHERS = (ast.AugAssign, ast.Assert)
"""Nodes that are no expressions and have instructions of interest."""


_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}


class _Folded(ast.NodeTransformer):
    """Makes of `not a in b` what the compiler makes of it, `a not in b`."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        one = node.operand
        if (
            isinstance(node.op, ast.Not)
            and isinstance(one, ast.Compare)
            and len(one.ops) == 1
            and type(one.ops[0]) in _OPPOSITE
        ):
            one.ops = [_OPPOSITE[type(one.ops[0])]]
            return one
        return node


class Source:
    """Expressions that instructions evaluate. Nothing is said of one whose place stands for several expressions."""

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
        self.stored: dict[ast.AST, ast.AST] = dict(pair for node in nodes for pair in _assigned(node))
        """What is stored in a target, as far as it is one expression."""
        self.joined = {
            line
            for node in nodes
            if isinstance(node, ast.expr | ast.stmt) and not hasattr(node, "body") and node.end_lineno != node.lineno
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        """Lines of what is written over several, at which some of it may have been evaluated."""
        self._compared = {(code.number, at): nth for code in flow.moves.codes for at, nth in _comparisons(code)}

    def compared(self, code: int, at: int, node: ast.Compare) -> int | None:
        """Find the comparison, in an expression, that an instruction makes; None: that is not known."""
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
    """Return what has the place of the whole text: its pieces, and theirs."""
    for part in node.values:
        yield part
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            yield part.format_spec
            yield from _parts(part.format_spec)


def _positions(node: Any) -> Iterator[Position]:
    yield node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
    attribute = node.func if isinstance(node, ast.Call) else node
    if isinstance(attribute, ast.Attribute) and attribute.end_lineno != attribute.lineno:
        start = (attribute.end_col_offset or 0) - len(attribute.attr)
        yield attribute.end_lineno or 0, start, node.end_lineno, node.end_col_offset


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, node


def _comparisons(code: Code) -> Iterator[tuple[int, int]]:
    seen: dict[Position, int] = {}
    for at, one in enumerate(code.instructions):
        if one.op in ("COMPARE_OP", "IS_OP", "CONTAINS_OP"):
            nth = seen.get(one.position, 0)
            seen[one.position] = nth + 1
            yield at, nth


__all__ = ["COMPREHENSIONS", "Source"]
