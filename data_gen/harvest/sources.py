"""Packages on disk: their modules, tests, version and licence."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageMetadata, PathDistribution
from pathlib import Path
from typing import NamedTuple

from remedy.data_gen.execution.isolation import find_interpreter
from remedy.files import read_text
from remedy.messages import shown
from remedy.processes import ask
from remedy.settings import UserError

UNKNOWN = "unknown"
PYTHON_LICENCE = "PSF-2.0"
_NO_CODE = {
    *("test", "tests", "testing", "doc", "docs", "example", "examples"),
    *("benchmark", "benchmarks", "build", "dist"),
}
_NO_MODULES = {"setup", "conftest", "noxfile", "fabfile", "tasks", "__main__"}
_TEXTS = (".rst", ".md", ".txt", ".doctest")
_SITES = ("site-packages", "dist-packages")
_MOST_BYTES = 10_000_000
"""Size of a text or metadata file that is read, at most."""
_ASK = """
import json, sys, sysconfig
print(json.dumps([sys.path, "%d.%d.%d" % sys.version_info[:3], sysconfig.get_paths()["stdlib"], sorted(sys.stdlib_module_names)]))
"""


class Package(NamedTuple):
    """Package on disk.

    `root`: the folder it is imported from. `modules`: names and files. `tests`: tests and texts with examples. `libraries`:
    folders its code may read. `alone`: files of its top modules, if `root` is not readable.
    """

    name: str
    version: str
    licence: str
    root: Path
    modules: tuple[tuple[str, Path], ...]
    tests: tuple[Path, ...]
    libraries: tuple[str, ...]
    alone: dict[str, str]

    @property
    def folder(self) -> str:
        return self.libraries[-1] if self.libraries else str(self.root / "test")

    def line_of(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


class Interpreter(NamedTuple):
    """Search path, version and standard library of an interpreter."""

    path: list[str]
    version: str
    library: str
    names: list[str]


def interpreter(python: str | None) -> Interpreter:
    """Ask an interpreter about itself; by default this one.

    Raises:
        ConfigError: it does not exist or is too old.
    """
    answer = Interpreter(*json.loads(ask(find_interpreter(python).path, _ASK)))
    return answer if python else answer._replace(path=sys.path)


def find(word: str, python: Interpreter) -> Package:
    """Find the package that a word names: a folder, a distribution or a module.

    Raises:
        UserError: there is none, or it has no Python modules.
    """
    path = Path(word)
    if path.is_dir():
        package = _folder(path.resolve())
    else:
        package = _library(word, python) if word.split(".")[0] in python.names else _installed(word, python)
    if not package.modules:
        raise UserError(f"{shown(word)}: there is no module in Python in {package.root}")
    return package


def _library(word: str, python: Interpreter) -> Package:
    root = Path(python.library)
    stem = root / word.replace(".", "/")
    modules = _modules(root, [stem, stem.with_name(f"{stem.name}.py")])
    name = word.replace(".", "_").lstrip("_")
    patterns = (f"test_{name}.py", f"test_{name}_*.py", f"test_{name}/test*.py")
    tests = [file for pattern in patterns for file in (root / "test").glob(pattern)]
    return Package(word, f"Python {python.version}", PYTHON_LICENCE, root, modules, tuple(sorted(tests)), (), {})


def _installed(word: str, python: Interpreter) -> Package:
    folders = [path for path in python.path if path]
    for folder in map(Path, folders):
        for distribution in _distributions(folder):
            if _same(name := distribution.metadata["Name"], word):
                return _package(
                    name,
                    distribution.metadata,
                    folder,
                    [folder / top for top in _tops(distribution)],
                    _installed_in(folder),
                )
    spec = PathFinder.find_spec(word.split(".")[0], folders)
    if spec is None or spec.origin is None:
        raise UserError(f"there is no folder, distribution or module {shown(word)}: install it, or give its folder")
    path = Path(spec.origin)
    root = path.parent.parent if path.name == "__init__.py" else path.parent
    stem = root / word.replace(".", "/")
    about = _owner(word.split(".")[0], root)
    return _package(word, about, root, [stem, stem.with_name(f"{stem.name}.py")], _installed_in(root))


def _installed_in(folder: Path) -> list[Path]:
    return [folder] if folder.name in _SITES or any(folder.glob("*.dist-info")) else []


def _owner(top: str, root: Path) -> PackageMetadata | None:
    return next(
        (distribution.metadata for distribution in _distributions(root) if {top, f"{top}.py"} & {*_tops(distribution)}),
        None,
    )


class _Distribution(PathDistribution):
    """Distribution whose pipes and huge files are not read."""

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return read_text(Path(str(self._path), filename), _MOST_BYTES)
        return None


def _distributions(folder: Path) -> Iterator[_Distribution]:
    return (
        distribution
        for distribution in map(_Distribution, [folder, *sorted(folder.glob("*.*-info"))])
        if distribution.metadata["Name"]
    )


def _tops(distribution: _Distribution) -> list[str]:
    with contextlib.suppress(csv.Error, ValueError, TypeError):
        return sorted({file.parts[0] for file in distribution.files or () if file.suffix == ".py"} - {"..", "/"})
    return []


def _folder(folder: Path) -> Package:
    if (folder / "__init__.py").exists():
        root = folder
        while (root / "__init__.py").exists():
            root = root.parent
        about = _owner(folder.relative_to(root).parts[0], root) or _information(root)
        return _package(".".join(folder.relative_to(root).parts), about, root, [folder])
    root = folder / "src" if (folder / "src").is_dir() else folder
    inner = [path for path in root.iterdir() if path.name not in _NO_CODE and (path / "__init__.py").exists()]
    about = _information(folder)
    return _package(
        str(about["Name"]) if about else folder.name, about, root, [*inner, *root.glob("*.py")], [root, folder]
    )


def _package(
    name: str, about: PackageMetadata | None, root: Path, paths: Sequence[Path], seen: Sequence[Path] = ()
) -> Package:
    tests = [file for path in seen[1:] or paths for file in _tests(path)]
    version, licence = (str(about["Version"] or UNKNOWN), _licence(about)) if about else (UNKNOWN, UNKNOWN)
    tops = [] if seen else sorted({root / path.relative_to(root).parts[0] for path in paths if path.exists()})
    return Package(
        name,
        version,
        licence,
        root,
        _modules(root, paths),
        tuple(sorted(set(tests))),
        tuple(dict.fromkeys(map(str, seen or tops))),
        {top.stem: str(top / "__init__.py" if top.is_dir() else top) for top in tops},
    )


def _modules(root: Path, paths: Sequence[Path]) -> tuple[tuple[str, Path], ...]:
    files_by_name = dict[str, Path]()
    for top in paths:
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            inner = path.relative_to(root).with_suffix("").parts
            parts = inner[:-1] if inner[-1] == "__init__" else inner
            is_code = not any(part in _NO_CODE or part.startswith("test_") for part in parts)
            if path.is_file() and parts and is_code and parts[-1] not in _NO_MODULES:
                files_by_name.setdefault(
                    ".".join(parts), path
                )  # a folder's, before a file of the same name: so it is imported
    return tuple(sorted(files_by_name.items()))


def _tests(top: Path) -> Iterator[Path]:
    for path in top.rglob("*") if top.is_dir() else ():
        is_test = path.suffix == ".py" and (path.stem.startswith("test_") or path.stem.endswith("_test"))
        is_text = path.suffix in _TEXTS and "egg-info" not in path.parent.name
        if path.is_file() and (is_test or (is_text and _has_examples(path))):
            yield path


def _has_examples(path: Path) -> bool:
    try:
        return ">>> " in read_text(path, _MOST_BYTES)
    except (OSError, ValueError):
        return False


def _information(folder: Path) -> PackageMetadata | None:
    return next((distribution.metadata for distribution in _distributions(folder)), None)


def _licence(about: PackageMetadata) -> str:
    if expression := about["License-Expression"]:
        return str(expression)
    ends = [line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or [] if "License ::" in line]
    if named := [end for end in ends if end != "OSI Approved"]:
        return " AND ".join(sorted(named))
    line = str(about["License"] or "").strip()
    return line if line and "\n" not in line and len(line) < 60 else UNKNOWN


def is_licensed(licence: str, wanted: Sequence[str]) -> bool:
    """Say if a licence is, or lets one choose, a wanted one; `BSD` includes `BSD-3-Clause`."""

    def is_one(part: str) -> bool:
        words = re.split(r"[\s()-]+", part.strip(" ()").lower())
        return any(words[: len(want)] == want for want in (re.split(r"[\s-]+", name.lower()) for name in wanted))

    parts = re.split(r"\s+and\s+|\s*&\s*", licence, flags=re.IGNORECASE)  # of metadata, which need not be SPDX's
    return all(any(map(is_one, re.split(r"\s+or\s+", part, flags=re.IGNORECASE))) for part in parts)


def _same(name: str, other: str) -> bool:
    return re.sub(r"[-_.]+", "-", name).lower() == re.sub(r"[-_.]+", "-", other).lower()
