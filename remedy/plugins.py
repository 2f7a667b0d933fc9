"""Plug-ins: modules of a user's own that register tasks, mixers, formats and other choices when they are imported.

A module or the path of one is named in a configuration (`plugins`) or by `--plugin`; installed packages name theirs as entry points of
the group `remedy.plugins`, which are imported once a name is asked for that is not known. What is imported runs with the user's rights.
Those that stored settings name are not imported, but named where something is not known.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


GROUP = "remedy.plugins"
_TO_CHILDREN = "REMEDY_PLUGINS"
"""The variable that tells processes which this one starts what it imported by name or path."""
_loaded: dict[str, str] = {}
_asked: list[str] = []
"""Those of the command line."""
_named: dict[str, Path] = {}
"""Those that stored settings name, each with the file."""


class PluginError(Exception):
    """A plug-in that cannot be imported."""


def load_plugin(name: str) -> str:
    """Import a module, or the file or folder of one; returns what names it from any folder.

    Raises:
        PluginError: it cannot be imported, or its name is another module's.
    """
    path = Path(name).absolute() if name.endswith(".py") or os.sep in name else None
    module = name if path is None else path.stem
    if module not in _loaded:
        _import(module, path, name)
    elif path and path.exists() and (file := getattr(sys.modules.get(module), "__file__", None)) and not _is_at(file, path):
        raise PluginError(f"{name} cannot be imported: another plug-in is called {module}: rename the file")
    lasting = name if path is None else str(path)
    told = json.loads(os.environ.get(_TO_CHILDREN, "[]"))
    if lasting not in told:
        os.environ[_TO_CHILDREN] = json.dumps([*told, lasting])
    return lasting


def ask_for_plugins(names: Iterable[str]) -> None:
    """Import the plug-ins of a command line, which belong to every configuration that it reads.

    Raises:
        PluginError: as `load_plugin`.
    """
    _asked[:] = [load_plugin(name) for name in names]


def asked_plugins() -> tuple[str, ...]:
    """The plug-ins of the command line."""
    return tuple(_asked)


def note_plugins(names: Any, path: Path) -> None:
    """Keep the plug-ins that stored settings name, for `missing_plugins`."""
    if isinstance(names, (list, dict)):
        _named.update(dict.fromkeys(map(str, names), path))


def missing_plugins() -> str:
    """Name the plug-ins of stored settings that were not imported, to follow an error; empty if there are none."""
    missing = [name for name in _named if _loaded.keys().isdisjoint((name, Path(name).stem))]
    options = " ".join(f"--plugin {name!r}" for name in missing)
    return options and f"; {_named[missing[0]]} names plug-ins: give {options} if you trust them"


def load_known_plugins() -> bool:
    """Import the plug-ins of installed packages, and those of the process that started this one; returns if any were new.

    Raises:
        PluginError: one cannot be imported.
    """
    before = len(_loaded)
    for name in json.loads(os.environ.get(_TO_CHILDREN, "[]")):
        load_plugin(name)
    for point in entry_points(group=GROUP):
        if point.module not in _loaded:
            _import(point.module, None, f"{point.module}{f', of package {point.dist.name},' if point.dist else ''}")
    return len(_loaded) > before


def plugins_section() -> dict[str, dict[str, str]]:
    """Return a section for all that this process makes: `plugins`, the modules that were imported as such, each with a digest of its
    package's sources, or of its file and those beside it that it imports; nothing without any."""
    return {"plugins": dict(sorted(_loaded.items()))} if _loaded else {}


def _import(module: str, path: Path | None, said: str) -> None:
    folder = "" if path is None else str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        if path is not None and not path.exists():
            raise FileNotFoundError("there is no such file")
        if path is not None and not (find_spec(module) and _is_at(find_spec(module).origin, path)):  # type: ignore[union-attr]
            raise ImportError(f"another module is called {module}: rename the file")
        _loaded[module] = ""  # while it is imported, names that it registers later are not looked for in it
        _loaded[module] = _digest(import_module(module))
    except (Exception, SystemExit) as error:  # of any kind: it is a user's code
        _loaded.pop(module, None)
        raise PluginError(f"{said} cannot be imported ({type(error).__name__}: {error})") from error


def _is_at(origin: str | None, path: Path) -> bool:
    return origin is not None and Path(origin).resolve() in (path.resolve(), path.resolve() / "__init__.py")


def _digest(module: ModuleType) -> str:
    """Digest the sources of the package that a module is of, or its file with its helpers."""
    top = sys.modules[module.__name__.split(".")[0]]
    file = Path(top.__file__ or module.__file__ or "")
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else _with_helpers(file)
    digest = hashlib.sha256()
    for one in filter(Path.is_file, files):  # an editor's lock of a file is a link to nowhere
        digest.update(one.relative_to(file.parent).as_posix().encode() + b"\0" + one.read_bytes())
    return digest.hexdigest()[:16]


def _with_helpers(file: Path) -> list[Path]:
    """A module's file, those beside it that it imports, and those that they import."""
    found = [file]
    for one in found:
        for node in ast.walk(_parsed(one)):
            match node:
                case ast.Import(names):
                    imported = [alias.name for alias in names]
                case ast.ImportFrom(str(name)):
                    imported = [name]
                case _:
                    continue
            beside = (file.with_name(f"{name.partition('.')[0]}.py") for name in imported)
            found += [helper for helper in beside if helper not in found and helper.is_file()]
    return found


def _parsed(file: Path) -> ast.AST:
    """A source's tree; an empty one of what is no Python, which may be there and never imported."""
    try:
        return ast.parse(file.read_bytes() if file.suffix == ".py" else b"")
    except (SyntaxError, ValueError, RecursionError):
        return ast.parse(b"")
