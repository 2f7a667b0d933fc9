"""Plug-ins: user modules that register tasks, mixers, formats and others.

`plugins` in configurations and `--plugin` name them. Entry points of installed packages are imported at the first
unknown name. Plug-ins have the user's rights, so errors only name those of stored settings.
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
"""The environment variable that names plug-ins for child processes."""
_loaded: dict[str, str] = {}
"""Imported plug-ins, each with the digest of its sources."""
_of_command_line: list[str] = []
"""Plug-ins of the command line."""
_of_stored_settings: dict[str, Path] = {}
"""Plug-ins that stored settings name, each with the file that names it."""


class PluginError(Exception):
    """A plug-in that cannot be imported."""


def load_plugin(name: str) -> str:
    """Import a module, file or folder; return its lasting name.

    Raises:
        PluginError: it cannot be imported, or another has its name.
    """
    path = Path(name).absolute() if name.endswith(".py") or os.sep in name else None
    module = name if path is None else path.stem
    if module not in _loaded:
        _import(module, path, name)
    elif (
        path
        and path.exists()
        and (file := getattr(sys.modules.get(module), "__file__", None))
        and not _is_at(file, path)
    ):
        raise PluginError(f"{name} cannot be imported: another plug-in is called {module}: rename the file")
    lasting = name if path is None else str(path)
    inherited = json.loads(os.environ.get(_TO_CHILDREN, "[]"))
    if lasting not in inherited:
        os.environ[_TO_CHILDREN] = json.dumps([*inherited, lasting])
    return lasting


def ask_for_plugins(names: Iterable[str]) -> None:
    """Import the command line's plug-ins.

    Raises:
        PluginError: as `load_plugin`.
    """
    _of_command_line[:] = [load_plugin(name) for name in names]


def asked_plugins() -> tuple[str, ...]:
    return tuple(_of_command_line)


def note_plugins(names: Any, path: Path) -> None:
    """Remember stored settings' plug-ins for `missing_plugins`."""
    if isinstance(names, (list, dict)):
        _of_stored_settings.update(dict.fromkeys(map(str, names), path))


def missing_plugins() -> str:
    """Write an error's end: stored plug-ins that are not imported."""
    missing = [name for name in _of_stored_settings if _loaded.keys().isdisjoint((name, Path(name).stem))]
    options = " ".join(f"--plugin {name!r}" for name in missing)
    return options and f"; {_of_stored_settings[missing[0]]} names plug-ins: give {options} if you trust them"


def load_known_plugins() -> bool:
    """Import installed packages' and the parent's plug-ins; say if any were new.

    Raises:
        PluginError: one cannot be imported.
    """
    count = len(_loaded)
    for name in json.loads(os.environ.get(_TO_CHILDREN, "[]")):
        load_plugin(name)
    for point in entry_points(group=GROUP):
        if point.module not in _loaded:
            _import(point.module, None, f"{point.module}{f', of package {point.dist.name},' if point.dist else ''}")
    return len(_loaded) > count


def plugins_section() -> dict[str, dict[str, str]]:
    """Return an output's `plugins`, with digests of their sources."""
    return {"plugins": dict(sorted(_loaded.items()))} if _loaded else {}


def _import(module: str, path: Path | None, name: str) -> None:
    folder = "" if path is None else str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        if path is not None and not path.exists():
            raise FileNotFoundError("there is no such file")
        if path is not None and not (find_spec(module) and _is_at(find_spec(module).origin, path)):  # type: ignore[union-attr]
            raise ImportError(f"another module is called {module}: rename the file")
        _loaded[module] = ""  # set first: a look-up during the import must not import it again
        _loaded[module] = _digest(import_module(module))
    except (Exception, SystemExit) as error:  # user code raises anything
        _loaded.pop(module, None)
        raise PluginError(f"{name} cannot be imported ({type(error).__name__}: {error})") from error


def _is_at(origin: str | None, path: Path) -> bool:
    return origin is not None and Path(origin).resolve() in (path.resolve(), path.resolve() / "__init__.py")


def _digest(module: ModuleType) -> str:
    top = sys.modules[module.__name__.split(".")[0]]
    file = Path(top.__file__ or module.__file__ or "")
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else _with_helpers(file)
    digest = hashlib.sha256()
    for source in filter(Path.is_file, files):  # editors' lock files are links to nowhere
        digest.update(source.relative_to(file.parent).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _with_helpers(file: Path) -> list[Path]:
    """List a module's file and those beside it that it imports."""
    files = [file]
    for source in files:  # grows below
        for node in ast.walk(_parsed(source)):
            match node:
                case ast.Import(names):
                    imported = [alias.name for alias in names]
                case ast.ImportFrom(str(name)):
                    imported = [name]
                case _:
                    continue
            candidates = (file.with_name(f"{name.partition('.')[0]}.py") for name in imported)
            files += [helper for helper in candidates if helper not in files and helper.is_file()]
    return files


def _parsed(file: Path) -> ast.AST:
    try:
        return ast.parse(file.read_bytes() if file.suffix == ".py" else b"")
    except (SyntaxError, ValueError, RecursionError):
        return ast.parse(b"")
