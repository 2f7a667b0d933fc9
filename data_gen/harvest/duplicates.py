"""Duplicates among programs: equal syntax trees but for locals' names, or similar tokens."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from remedy.data_gen.splits import text_hash

SHINGLE = 5
"""Tokens in a row that are compared."""
ALIKE = 0.8
"""Jaccard similarity of shingles from which two programs are near duplicates."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Duplicate(NamedTuple):
    """Label of a duplicate's original, and their similarity; 1: equal trees."""

    of: str
    alike: float


class ProgramIndex:
    """Programs that others are compared with."""

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._sizes: list[int] = []
        self._having: dict[int, list[int]] = defaultdict(list)
        self._same: dict[str, str] = {}

    def add(self, label: str, texts: Iterable[str]) -> None:
        """Add a program, given the canonical texts of its parts."""
        whole = "\n".join(texts)
        self._same.setdefault(whole, label)
        shingles = _shingles(whole)
        for shingle in shingles:
            self._having[shingle].append(len(self._labels))
        self._labels.append(label)
        self._sizes.append(len(shingles))

    def find(self, texts: Iterable[str]) -> Duplicate | None:
        """Find the first equal program, else the most similar; None below ALIKE."""
        whole = "\n".join(texts)
        if whole in self._same:
            return Duplicate(self._same[whole], 1.0)
        shingles = _shingles(whole)
        common = Counter(number for shingle in shingles for number in self._having.get(shingle, ()))
        similarity = {
            number: shared / (len(shingles) + self._sizes[number] - shared) for number, shared in common.items()
        }
        best = max(similarity, key=lambda number: (similarity[number], -number), default=None)
        if best is None or similarity[best] < ALIKE:
            return None
        return Duplicate(self._labels[best], round(similarity[best], 3))


def canonical(code: str) -> list[str]:
    """List a program's statements without imports, docstrings, annotations and comments.

    Locals are renamed in order of appearance.

    Raises:
        SyntaxError, ValueError, RecursionError: `code` cannot be parsed.
    """
    statements = [
        statement for statement in ast.parse(code).body if not isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    return [ast.unparse(_Plain(_locals(statement)).visit(statement)) for statement in statements]


def functions(code: str) -> Iterator[list[str]]:
    """Yield the canonical texts of each function of a program."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef):
            yield canonical(ast.unparse(node))


def _shingles(text: str) -> set[int]:
    tokens = _TOKEN.findall(text)
    return {
        text_hash(" ".join(tokens[start : start + SHINGLE])) & 0xFFFFFFFF
        for start in range(max(1, len(tokens) - SHINGLE + 1))
    }


def _locals(statement: ast.stmt) -> dict[str, str]:
    names: dict[str, str] = {}
    for scope in (node for node in ast.walk(statement) if isinstance(node, _SCOPES)):
        for node in ast.walk(scope):
            match node:
                case (
                    ast.arg(arg=name)
                    | ast.Name(id=name, ctx=ast.Store() | ast.Del())
                    | ast.ExceptHandler(name=str(name))
                ):
                    names.setdefault(name, f"v{len(names)}")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    if node is not scope:
                        names.setdefault(name, f"v{len(names)}")
    if isinstance(statement, ast.FunctionDef):
        names.setdefault(statement.name, "function")
    return names


class _Plain(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(self._names.get(node.arg, node.arg))

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return ast.keyword(node.arg, self.visit(node.value))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._names.get(node.name, node.name) if node.name else None
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.visit_ClassDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        node.annotation = ast.Constant(None)
        return node

    def visit_ClassDef(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)
