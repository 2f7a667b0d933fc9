"""Self-contained programs: the statements of a package that one function needs.

The standard library is imported; the package's own statements are copied.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from remedy.data_gen.harvest.modules import DEFINITIONS, Module, bound, imports, needed, read

MOST_CHARACTERS = 8_000
"""Length of a program, at most."""
_OF_MODULES = {"__name__", "__doc__", "__package__", "__spec__", "__builtins__", "__debug__"}
_OWN_NAMES = ("f", "main")
"""Names that the program's last lines bind."""


class Refused(Exception):
    """Reason why a function has no self-contained program."""


def closed(root: Path, module: Module, function: ast.FunctionDef) -> str:
    """Write a program that defines a function and all that it needs.

    `root`: the folder that the package is imported from.

    Raises:
        Refused: there is no such program, or it is too long.
    """
    try:
        try:
            code = _Closure(root, module, function, True).code()
        except Refused:
            # A decorator may be all that cannot be copied; the function is often worth having without it.
            if not function.decorator_list:
                raise
            code = _Closure(root, module, function, False).code()
        if len(code) > MOST_CHARACTERS:
            raise Refused(f"longer than {MOST_CHARACTERS:,} characters")
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refused("its text cannot be cut out") from None
    return code


def called_f(code: str, name: str, iterates: bool) -> str:
    """Bind a program's function to `f`, which lists an iterator's items (`iterates`)."""
    if iterates:
        return f"{code}\ndef f(*arguments, **named):\n    return list({name}(*arguments, **named))\n"
    return code if name == "f" else f"{code}\nf = {name}\n"


class _Closure:
    def __init__(self, root: Path, module: Module, function: ast.FunctionDef, decorated: bool) -> None:
        self._root, self._top = root, module.name.partition(".")[0]
        self._function, self._decorated = function, decorated
        self._modules: dict[str, Module] = {}
        self._taken: dict[str, set[int]] = defaultdict(set)
        self._aliases: dict[str, set[str]] = defaultdict(set)
        self._attributes: dict[tuple[str, int], list[ast.Attribute]] = defaultdict(list)
        self._imports: set[str] = set()
        self._after: dict[str, set[str]] = defaultdict(set)
        self._owners: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._need(module, function.name)
        if any(name in self._owners and name != function.name for name in _OWN_NAMES):
            raise Refused("two modules' names clash")

    def code(self) -> str:
        parts, head = [], list[str]()
        for name in self._order():
            module = self._modules[name]
            parts += sorted(self._aliases[name])
            for number in sorted(self._taken[name]):
                statement = module.statements[number]
                if _is_annotated(statement):
                    head = ["from __future__ import annotations"]
                decorated = statement is not self._function or self._decorated
                text = module.text(statement, decorated, self._attributes[name, number])
                parts.append(f"\n{text}\n" if isinstance(statement, DEFINITIONS) else text)
        return "\n".join([*head, *sorted(self._imports), *parts]).strip("\n") + "\n"

    def _order(self) -> list[str]:
        for name in [name for name in self._after if not self._taken[name] and not self._aliases[name]]:
            further = self._after.pop(name)  # it hands on what others have
            for after in self._after.values():
                if name in after:
                    after |= further
        for name, after in self._after.items():
            after &= self._after.keys() - {name}
        try:
            return list(TopologicalSorter(self._after).static_order())
        except CycleError:
            return list(reversed(self._after))

    def _need(self, module: Module, name: str) -> None:
        if (module.name, name) in self._seen:
            return
        self._seen.add((module.name, name))
        self._modules[module.name] = module
        self._after.setdefault(module.name, set())
        for number in module.bound.get(name, ()):
            self._take(module, number, name)
        if name in module.bound:
            return
        for star in module.stars:
            source = self._read(_target(module, star))
            if source is not None and (name in source.bound or source.stars):
                self._from(module, source, name)
                return
        if name not in _OF_MODULES and not hasattr(builtins, name):
            raise Refused("a name that is not found")

    def _take(self, module: Module, number: int, name: str) -> None:
        statement = module.statements[number]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(module, statement, name)
            return
        if number in self._taken[module.name]:
            return
        self._taken[module.name].add(number)
        if not all(
            root in sys.stdlib_module_names
            for statement_inside in imports([statement])
            for root in _roots(statement_inside)
        ):
            raise Refused("an import inside a statement")
        for own in bound(statement):
            self._claim(own, module.name)
        if statement is self._function and not self._decorated:
            statement = ast.FunctionDef(**{**vars(statement), "decorator_list": []})
        inside = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        inside |= {node.name for node in ast.walk(statement) if isinstance(node, DEFINITIONS)}
        for need in sorted(needed(statement)):
            if (whole := self._submodule(module, need)) is not None:
                for attribute in _attributes(statement, need, inside):
                    self._attributes[module.name, number].append(attribute)
                    self._from(module, whole, attribute.attr)
            elif need in module.bound or need not in inside:  # a class's own names are looked up like a module's
                self._need(module, need)

    def _from(self, module: Module, source: Module, name: str) -> None:
        self._after[module.name].add(source.name)
        self._need(source, name)

    def _submodule(self, module: Module, name: str) -> Module | None:
        numbers = module.bound.get(name, [])
        statement = module.statements[numbers[0]] if len(numbers) == 1 else None
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            return None
        alias = _alias(statement, name)
        if isinstance(statement, ast.Import):
            return self._read(alias.name) if alias.asname or "." not in alias.name else None
        source = self._read(target := _target(module, statement))
        is_bound = source is not None and source is not module and alias.name in source.bound
        return None if is_bound else self._read(f"{target}.{alias.name}")

    def _import(self, module: Module, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = _alias(statement, name)
        written = f" as {alias.asname}" if alias.asname and alias.asname != alias.name else ""
        if isinstance(statement, ast.Import):
            self._whole(alias.name, f"import {alias.name}{written}", name, f"import {name}" if not written else "")
            return
        target = _target(module, statement)
        if target.partition(".")[0] == self._top:
            source = self._read(target)
            if source is not None and (alias.name in source.bound or source.stars):
                self._from(module, source, alias.name)
                if written:
                    self._claim(name, module.name)
                    self._aliases[module.name].add(f"{name} = {alias.name}")
                return
        self._whole(target, f"from {target} import {alias.name}{written}", name)

    def _whole(self, target: str, line: str, name: str, owner: str = "") -> None:
        root = target.partition(".")[0]
        if root == "__future__":
            return
        if root not in sys.stdlib_module_names:
            raise Refused("a whole module of its package" if root == self._top else "another package")
        self._claim(name, owner or line)
        self._imports.add(line)

    def _read(self, target: str) -> Module | None:
        if target.partition(".")[0] != self._top:
            return None
        stem = self._root.joinpath(*target.split("."))
        path = stem / "__init__.py" if stem.is_dir() else stem.with_name(f"{stem.name}.py")
        return read(target, path)

    def _claim(self, name: str, owner: str) -> None:
        if self._owners.setdefault(name, owner) != owner:
            raise Refused("two modules' names clash")


def _attributes(statement: ast.stmt, module: str, inside: set[str]) -> list[ast.Attribute]:
    accesses, mentions = [], 0
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if name == module:
                accesses.append(node)
            case ast.Name(id=name) | ast.arg(arg=name) if name == module:
                mentions += 1
    if mentions > len(accesses) or module in inside:
        raise Refused("a whole module of its package")
    return accesses


def _alias(statement: ast.Import | ast.ImportFrom, name: str) -> ast.alias:
    return next(alias for alias in statement.names if (alias.asname or alias.name.split(".")[0]) == name)


def _target(module: Module, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    outer = module.package.split(".")
    return ".".join([*outer[: len(outer) - statement.level + 1], *([statement.module] if statement.module else [])])


def _roots(statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    return ["" if statement.level else (statement.module or "").partition(".")[0]]


def _is_annotated(statement: ast.stmt) -> bool:
    return any(getattr(node, key, None) for node in ast.walk(statement) for key in ("annotation", "returns"))
