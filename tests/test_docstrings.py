"""Docstrings begin plainly: an imperative verb for a function, a noun for a class or module."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("remedy", "data_gen", "models", "train", "eval", "launch", "benchmarks")
REFUSED = {"what", "which", "whether", "how", "of", "where", "who", "whose", "that", "why", "when"}


def riddles(folder: str) -> list[str]:
    """List the docstrings of a folder whose first word is a question's or a relative clause's, by file and line."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or "."
                if text.split()[0].strip(",.:;`*").lower() in REFUSED:
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    found.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    return found


def test_docstrings_begin_plainly() -> None:
    found = [line for folder in FOLDERS for line in riddles(folder)]
    assert not found, "\n".join(found)
