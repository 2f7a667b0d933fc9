"""Programs of a package's own examples: of a module's source what one docstring's examples reach, and a `main` with these."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.harvest.modules import bound, first_line

_LONGEST = 200_000
"""Characters of a module that is taken: control flow of a longer one takes minutes to read."""


def programs(package: str) -> Iterator[Program]:
    """Yield the examples of all modules of a package, or of a module alone, that are written in Python."""
    for name in _modules(package):
        try:
            spec = importlib.util.find_spec(name)
            source = Path(spec.origin or "").read_text(encoding="utf-8") if spec is not None else ""
        except (ImportError, OSError, ValueError, AttributeError):
            continue
        if spec is not None and (spec.origin or "").endswith(".py") and len(source) < _LONGEST:
            yield from _programs(name, source, spec.submodule_search_locations is not None)


def _modules(package: str) -> Iterator[str]:
    yield package
    try:
        paths = getattr(importlib.import_module(package), "__path__", [])
    except Exception:  # whatever its import does
        return
    for found in pkgutil.walk_packages(paths, f"{package}.", onerror=lambda _: None):
        if "test" not in found.name and not found.name.endswith("__main__"):
            yield found.name


def _programs(name: str, source: str, is_package: bool) -> Iterator[Program]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    whole = absolute(source, tree, name if is_package else name.rpartition(".")[0])
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text and (body := _body(text, own)):
            where = "" if isinstance(node, ast.Module) else f":{node.name}"
            yield Program(
                f"{reached(whole, body)}\ndef main():  {MARKER}\n{textwrap.indent(body, '    ')}", f"{name}{where}"
            )


def reached(source: str, body: str) -> str:
    """Return the statements of a module that bind what the body names, and what those name, in their order."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a form of import that `absolute` does not rewrite; the outcome says it
        return source
    names = [_names(node) for node in statements]
    wanted, kept = _names(ast.parse(body)), set[int]()
    while more := {number for number, node in enumerate(statements) if bound(node) & wanted} - kept:
        kept |= more
        wanted = wanted.union(*(names[number] for number in more))
    lines = source.split("\n")
    texts: list[str] = []
    for number, node in enumerate(statements):
        if number in kept or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            texts += lines[first_line(node) - 1 : node.end_lineno]
    return "\n".join(texts) + "\n"


def _names(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def absolute(source: str, tree: ast.Module, package: str) -> str:
    """Return the source with what it imports from its own package named in full, on the same lines."""
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        outer = package.split(".")[: len(package.split(".")) - node.level + 1]
        full = ".".join([*outer, *([node.module] if node.module else [])])
        line = lines[node.lineno - 1]
        written = rf"from\s*\.+\s*{re.escape(node.module)}" if node.module else r"from\s*\.+"
        lines[node.lineno - 1] = re.sub(written, f"from {full}", line, count=1)
    return "\n".join(lines)


def _body(text: str, own: set[str]) -> str:
    """Return the statements of a docstring's examples; those that are to raise do so in a `try`."""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return ""
    found: list[str] = []
    for example in examples:
        source = example.source
        try:
            [statement] = ast.parse(source).body
        except (SyntaxError, ValueError):
            continue
        if isinstance(statement, ast.ImportFrom):
            names = {alias.name for alias in statement.names}
            if "*" in names or names <= own:
                continue
        raises = example.exc_msg is not None
        found.append(f"try:\n{textwrap.indent(source, '    ')}except Exception:\n    pass\n" if raises else source)
    return "".join(found)
