"""Names in a program: those taken, those that calls may change, and fresh ones."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

_READS = (ast.Attribute, ast.ImportFrom, ast.keyword)


class Names:
    """Names of a program or of a part of it."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.Constant)]
        self.taken = Counter(name for node in nodes for name in _texts(node))
        """How often each stands in the tree."""
        reads = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Load) or isinstance(node, _READS)]
        self.bound = {name for node in set(nodes).difference(reads) for name in _texts(node)}
        """Names given a value somewhere, so that a builtin of that name may not be the builtin."""
        self.shared = {n for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
        """Names that a called function may give another value."""

    def fresh(self, stem: str) -> str:
        """Take a name that the program does not have."""
        number = 1
        while (name := f"{stem}{number}") in self.taken:
            number += 1
        self.taken[name] += 1
        return name


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
        return
    for value in vars(node).values():
        yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
