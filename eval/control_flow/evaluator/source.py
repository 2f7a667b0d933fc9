"""A program's syntax tree, found by the places in the source that its instructions come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from remedy.eval.control_flow.evaluator.pure import SAME_VERSION
from remedy.eval.control_flow.flow import ControlFlow

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Source:
    """Expressions that instructions evaluate. Nothing is said of one whose place stands for several expressions."""

    def __init__(self, flow: ControlFlow) -> None:
        self.moves = flow.moves
        self.names = flow.moves.effects.names
        try:
            nodes = list(ast.walk(ast.parse(flow.program.code)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            nodes = []
        if not SAME_VERSION and any(isinstance(one, ast.JoinedStr) for one in nodes):
            nodes = []  # what is in f-strings then has other places
        found: dict[tuple[int, ...], ast.AST | None] = {}
        for node in nodes:
            if isinstance(node, ast.expr | ast.AugAssign | ast.Assert):
                found[_position(node)] = None if _position(node) in found else node
            for decorator in getattr(node, "decorator_list", []):
                found[_position(decorator)] = None  # where it is applied too
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


def _position(node: Any) -> tuple[int, ...]:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, node
