"""Names in a program: those taken, those that calls may change, and fresh ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_SEES_NAMES = {"locals", "vars", "dir", "globals", "eval", "exec"}


class Names:
    """Names of one program."""

    def __init__(self, tree: ast.AST) -> None:
        self.bound = {*_bound(tree)}
        """Names given a value somewhere, so that a builtin of that name may not be the builtin."""
        self.taken = self.bound.union(
            text for node in ast.walk(tree) for text in vars(node).values() if type(text) is str
        )
        self.shared = {n for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
        """Names that a called function may give another value."""

    def fresh(self, stem: str) -> str:
        """Take a name that the program does not have."""
        number = 1
        while (name := f"{stem}{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name


def looks_at_names(function: ast.AST) -> bool:
    """Say if a function may look its own variables up by name."""
    return any(isinstance(node, ast.Name) and node.id in _SEES_NAMES for node in ast.walk(function))


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield (other or name).split(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
