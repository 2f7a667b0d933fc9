"""Modules by their source: the names that each statement binds and needs, its text."""

from __future__ import annotations
import __future__

import ast
import dis
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from remedy.files import read_text

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOK_UPS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL")
_LONGEST = 1_000_000
"""Size of a module that is read, at most, in bytes."""


class Module:
    """Statements of a module.

    Raises:
        OSError, ValueError, SyntaxError, RecursionError, MemoryError: it cannot be read or parsed.
    """

    def __init__(self, name: str, path: Path) -> None:
        root = path.parents[name.count(".") + (path.name == "__init__.py")].resolve()
        # Raises where a link leads out of the package, whose own code could not read what is there.
        path.resolve().with_suffix("").relative_to(root / name.partition(".")[0])
        self.source = source = read_text(path, _LONGEST, "utf-8-sig")
        self.name, self.path = name, path
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        """Package that relative imports start from."""
        self.statements = ast.parse(source).body
        self.bound: dict[str, list[int]] = defaultdict(list)
        """Numbers of the statements that bind or change each name."""
        self.stars: list[ast.ImportFrom] = []
        self._lines = source.split("\n")
        for number, statement in enumerate(self.statements):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                self.stars.append(statement)
            elif not _is_for_types_alone(statement):
                for bound_name in bound(statement):
                    self.bound[bound_name].append(number)

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Yield the module's top-level functions, the last of each name."""
        last = {
            statement.name: statement
            for statement in self.statements
            if isinstance(statement, ast.FunctionDef) and not _is_for_types_alone(statement)
        }
        yield from last.values()

    def text(self, statement: ast.stmt, decorated: bool = True, attributes: Sequence[ast.Attribute] = ()) -> str:
        """Return a statement's text without docstrings, which may state results.

        `attributes`: keep only their last part.
        """
        begin = first_line(statement) if decorated else statement.lineno
        end = statement.end_lineno or begin
        before = self._lines[statement.lineno - 1].encode()[: statement.col_offset].strip()
        after = self._lines[end - 1].encode()[statement.end_col_offset :].strip()
        if before or (after and not after.startswith(b"#")):  # several on one line
            return ast.unparse(statement)
        lines: dict[int, str] = {number: self._lines[number - 1] for number in range(begin, end + 1)}
        for attribute in sorted(attributes, key=lambda attribute: -attribute.col_offset):
            line = lines[attribute.lineno].encode()
            if (
                line[attribute.col_offset : attribute.end_col_offset] == ast.unparse(attribute).encode()
            ):  # an f-string's places can be wrong
                lines[attribute.lineno] = (
                    line[: attribute.col_offset] + attribute.attr.encode() + line[attribute.end_col_offset :]
                ).decode()
        for node in ast.walk(statement):
            if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
                docstring = node.body[0]
                if self._lines[docstring.lineno - 1][: docstring.col_offset].strip():
                    continue
                for number in range(docstring.lineno, (docstring.end_lineno or 0) + 1):
                    lines.pop(number, None)
                if len(node.body) == 1:
                    lines[docstring.lineno] = " " * docstring.col_offset + "pass"
        return "\n".join(lines[number] for number in sorted(lines))


@lru_cache(maxsize=4096)
def read(name: str, path: Path) -> Module | None:
    """Read a module; None if it cannot be read or parsed."""
    try:
        return Module(name, path)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def first_line(node: ast.stmt) -> int:
    """Return the first line of a definition, that of its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def needed(statement: ast.stmt) -> set[str]:
    """Find the names that a statement looks up outside itself, without annotations."""
    module = ast.Module([statement], [])
    # The compiler resolves scopes exactly; lazy annotations are not looked up.
    waiting = [compile(module, "", "exec", __future__.annotations.compiler_flag, dont_inherit=True)]
    names: set[str] = set()
    while waiting:
        code = waiting.pop()
        names |= {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in _LOOK_UPS}
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return names


def bound(statement: ast.stmt) -> set[str]:
    """Find the names that a module's statement may bind or change."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            names |= _names(node.value)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            names.add(called.value.id)  # as TABLE.update(...) does
    return names


def imports(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in nodes:
        yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom))


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_for_types_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test).endswith("TYPE_CHECKING")
    decorators = getattr(statement, "decorator_list", [])
    return any(ast.unparse(decorator).endswith("overload") for decorator in decorators)
