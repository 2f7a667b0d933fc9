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

_LONGEST = 200_000
"""Characters of a module that is taken: control flow of a longer one takes minutes to read."""


def programs(package: str) -> Iterator[Program]:
    """The examples of all modules of a package, or of a module alone, that are written in Python."""
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


def absolute(source: str, tree: ast.Module, package: str) -> str:
    """The source with what it imports from its own package named in full, on the same lines."""
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


def reached(source: str, body: str) -> str:
    """The statements of a module that bind what the body names, and what those name, in their order."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a form of import that was not understood; the outcome says it
        return source
    bound = [_bound(node) for node in statements]
    named = [_named(node) for node in statements]
    wanted, kept = _named(ast.parse(body)), set[int]()
    while more := {at for at, names in enumerate(bound) if names & wanted} - kept:
        kept |= more
        wanted = wanted.union(*(named[at] for at in more))
    lines = source.split("\n")
    found = []
    for at, node in enumerate(statements):
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if at in kept or future:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            found += lines[first - 1 : node.end_lineno]
    return "\n".join(found) + "\n"


def _named(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a module may bind, or change what they stand for."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(one.name)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        elif isinstance(one, ast.alias):
            found.add((one.asname or one.name).split(".")[0])
        elif isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store):
            found |= _named(one.value)
    return found


def _body(text: str, own: set[str]) -> str:
    """The statements of a docstring's examples; those that are to raise do so in a `try`."""
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
