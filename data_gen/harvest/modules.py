"""Modules as their source has them: what each statement binds, what it needs, and how it is written without docstrings."""

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
"""Bytes of a module that is read."""


class Module:
    """A module's statements.

    Raises:
        OSError, ValueError, SyntaxError, RecursionError, MemoryError: it cannot be read, or is no Python.
    """

    def __init__(self, name: str, path: Path) -> None:
        root = path.parents[name.count(".") + (path.name == "__init__.py")].resolve()
        # Raises where a link leads out of the package, whose own code could not read what is there.
        path.resolve().with_suffix("").relative_to(root / name.partition(".")[0])
        self.source = source = read_text(path, _LONGEST, "utf-8-sig")
        self.name, self.path = name, path
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        """What its relative imports start from."""
        self.statements = ast.parse(source).body
        self.bound: dict[str, list[int]] = defaultdict(list)
        """The numbers of the statements that bind a name, or change what it stands for."""
        self.stars: list[ast.ImportFrom] = []
        self._lines = source.split("\n")
        for number, statement in enumerate(self.statements):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                self.stars.append(statement)
            elif not _is_for_types_alone(statement):
                for found in bound(statement):
                    self.bound[found].append(number)

    def functions(self) -> Iterator[ast.FunctionDef]:
        """The functions of the module itself, the last of each name."""
        last = {
            one.name: one
            for one in self.statements
            if isinstance(one, ast.FunctionDef) and not _is_for_types_alone(one)
        }
        yield from last.values()

    def text(self, statement: ast.stmt, decorated: bool = True, attributes: Sequence[ast.Attribute] = ()) -> str:
        """A statement as it is written, but for docstrings, in which a call's result may stand; of `attributes` the last part."""
        begin = first_line(statement) if decorated else statement.lineno
        end = statement.end_lineno or begin
        before = self._lines[statement.lineno - 1].encode()[: statement.col_offset].strip()
        after = self._lines[end - 1].encode()[statement.end_col_offset :].strip()
        if before or (after and not after.startswith(b"#")):  # several on one line
            return ast.unparse(statement)
        lines: dict[int, str] = {number: self._lines[number - 1] for number in range(begin, end + 1)}
        for one in sorted(attributes, key=lambda one: -one.col_offset):
            line = lines[one.lineno].encode()
            if (
                line[one.col_offset : one.end_col_offset] == ast.unparse(one).encode()
            ):  # an f-string's places can be wrong
                lines[one.lineno] = (line[: one.col_offset] + one.attr.encode() + line[one.end_col_offset :]).decode()
        for node in ast.walk(statement):
            if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
                said = node.body[0]
                if self._lines[said.lineno - 1][: said.col_offset].strip():
                    continue
                for number in range(said.lineno, (said.end_lineno or 0) + 1):
                    lines.pop(number, None)
                if len(node.body) == 1:
                    lines[said.lineno] = " " * said.col_offset + "pass"
        return "\n".join(lines[number] for number in sorted(lines))


@lru_cache(maxsize=4096)
def read(name: str, path: Path) -> Module | None:
    """A module; None if it cannot be read."""
    try:
        return Module(name, path)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def first_line(node: ast.stmt) -> int:
    """The line that a definition begins at: its first decorator's."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def needed(statement: ast.stmt) -> set[str]:
    """The names that a statement looks up outside itself; not those of annotations."""
    module = ast.Module([statement], [])
    waiting = [compile(module, "", "exec", __future__.annotations.compiler_flag, dont_inherit=True)]
    found: set[str] = set()
    while waiting:
        code = waiting.pop()
        found |= {one.argval for one in dis.get_instructions(code) if one.opname in _LOOK_UPS}
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return found


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module may bind, or change what they stand for."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    found: set[str] = set()
    for one in ast.walk(statement):
        if isinstance(one, DEFINITIONS):
            found.add(one.name)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        elif isinstance(one, ast.alias):
            found.add((one.asname or one.name).split(".")[0])
        elif isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store):
            found |= _names(one.value)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            found.add(called.value.id)  # as TABLE.update(...) does
    return found


def imports(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports anywhere in nodes."""
    for node in nodes:
        yield from (one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom))


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _is_for_types_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return ast.unparse(statement.test).endswith("TYPE_CHECKING")
    decorators = getattr(statement, "decorator_list", [])
    return any(ast.unparse(one).endswith("overload") for one in decorators)
