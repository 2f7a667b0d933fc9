"""Packages as they lie: their modules, their tests, and what their metadata says of version and licence."""

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
"""Of a file that is read: a text, or a distribution's description."""
_ASK = """
import json, sys, sysconfig
print(json.dumps([sys.path, "%d.%d.%d" % sys.version_info[:3], sysconfig.get_paths()["stdlib"], sorted(sys.stdlib_module_names)]))
"""


class Package(NamedTuple):
    """A package. `root`: the folder that it is imported from. `modules`: their names and files. `tests`: files of tests, and texts with
    examples. `libraries`: what its code may read. `alone`: the file of each of its top modules, where `root` is not among that."""

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
        """The folder that its tests are in."""
        return self.libraries[-1] if self.libraries else str(self.root / "test")

    def line_of(self, path: Path) -> str:
        """A file's place as records name it: from the folder that the package is imported from."""
        return path.relative_to(self.root).as_posix()


class Interpreter(NamedTuple):
    """An interpreter's search path, version, and standard library."""

    path: list[str]
    version: str
    library: str
    names: list[str]


def interpreter(python: str | None) -> Interpreter:
    """Ask an interpreter for what it says of itself; if none is named, the one that runs us, with the search path that it has here.

    Raises:
        ConfigError: it is not there, or too old.
    """
    said = Interpreter(*json.loads(ask(find_interpreter(python).path, _ASK)))
    return said if python else said._replace(path=sys.path)


def find(word: str, python: Interpreter) -> Package:
    """The package that a word names: a folder, a distribution, or a module that can be imported.

    Raises:
        UserError: there is none, or no Python in it.
    """
    place = Path(word)
    if place.is_dir():
        found = _folder(place.resolve())
    else:
        found = _library(word, python) if word.split(".")[0] in python.names else _installed(word, python)
    if not found.modules:
        raise UserError(f"{shown(word)}: there is no module in Python in {found.root}")
    return found


def _library(word: str, python: Interpreter) -> Package:
    root = Path(python.library)
    place = root / word.replace(".", "/")
    modules = _modules(root, [place, place.with_name(f"{place.name}.py")])
    name = word.replace(".", "_").lstrip("_")
    patterns = (f"test_{name}.py", f"test_{name}_*.py", f"test_{name}/test*.py")
    tests = [file for pattern in patterns for file in (root / "test").glob(pattern)]
    return Package(word, f"Python {python.version}", PYTHON_LICENCE, root, modules, tuple(sorted(tests)), (), {})


def _installed(word: str, python: Interpreter) -> Package:
    folders = [path for path in python.path if path]
    for folder in map(Path, folders):
        for one in _distributions(folder):
            if _same(name := one.metadata["Name"], word):
                return _found(name, one.metadata, folder, [folder / top for top in _tops(one)], _installed_in(folder))
    spec = PathFinder.find_spec(word.split(".")[0], folders)
    if spec is None or spec.origin is None:
        raise UserError(f"there is no folder, distribution or module {shown(word)}: install it, or give its folder")
    path = Path(spec.origin)
    root = path.parent.parent if path.name == "__init__.py" else path.parent
    place = root / word.replace(".", "/")
    about = _owner(word.split(".")[0], root)
    return _found(word, about, root, [place, place.with_name(f"{place.name}.py")], _installed_in(root))


def _installed_in(folder: Path) -> list[Path]:
    """A folder of the search path that packages were installed into: they import each other."""
    return [folder] if folder.name in _SITES or any(folder.glob("*.dist-info")) else []


def _owner(top: str, root: Path) -> PackageMetadata | None:
    return next((one.metadata for one in _distributions(root) if {top, f"{top}.py"} & {*_tops(one)}), None)


class _Distribution(PathDistribution):
    """A distribution of which no pipe, and no file that would fill the memory, is read."""

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """Return the text of a file of its description; None where there is none that can be read."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return read_text(Path(str(self._path), filename), _MOST_BYTES)
        return None


def _distributions(folder: Path) -> Iterator[_Distribution]:
    """The distributions with a name that a folder describes: it can be one, or be where they are installed."""
    return (one for one in map(_Distribution, [folder, *sorted(folder.glob("*.*-info"))]) if one.metadata["Name"])


def _tops(one: _Distribution) -> list[str]:
    """The packages and modules of a distribution, as its list of files says; none that lies outside."""
    with contextlib.suppress(csv.Error, ValueError, TypeError):
        return sorted({file.parts[0] for file in one.files or () if file.suffix == ".py"} - {"..", "/"})
    return []


def _folder(place: Path) -> Package:
    if (place / "__init__.py").exists():
        root = place
        while (root / "__init__.py").exists():
            root = root.parent
        about = _owner(place.relative_to(root).parts[0], root) or _information(root)
        return _found(".".join(place.relative_to(root).parts), about, root, [place])
    root = place / "src" if (place / "src").is_dir() else place
    inner = [path for path in root.iterdir() if path.name not in _NO_CODE and (path / "__init__.py").exists()]
    about = _information(place)
    return _found(str(about["Name"]) if about else place.name, about, root, [*inner, *root.glob("*.py")], [root, place])


def _found(
    name: str, about: PackageMetadata | None, root: Path, places: Sequence[Path], seen: Sequence[Path] = ()
) -> Package:
    """A package whose code sees `seen`, in the last of which its tests lie; by default itself alone, and nothing beside it."""
    tests = [file for place in seen[1:] or places for file in _tests(place)]
    version, licence = (str(about["Version"] or UNKNOWN), _licence(about)) if about else (UNKNOWN, UNKNOWN)
    tops = [] if seen else sorted({root / place.relative_to(root).parts[0] for place in places if place.exists()})
    return Package(
        name,
        version,
        licence,
        root,
        _modules(root, places),
        tuple(sorted(set(tests))),
        tuple(dict.fromkeys(map(str, seen or tops))),
        {top.stem: str(top / "__init__.py" if top.is_dir() else top) for top in tops},
    )


def _modules(root: Path, places: Sequence[Path]) -> tuple[tuple[str, Path], ...]:
    found = dict[str, Path]()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            inner = path.relative_to(root).with_suffix("").parts
            parts = inner[:-1] if inner[-1] == "__init__" else inner
            is_code = not any(part in _NO_CODE or part.startswith("test_") for part in parts)
            if path.is_file() and parts and is_code and parts[-1] not in _NO_MODULES:
                found.setdefault(".".join(parts), path)  # a folder's, before a file of the same name: so it is imported
    return tuple(sorted(found.items()))


def _tests(place: Path) -> Iterator[Path]:
    for path in place.rglob("*") if place.is_dir() else ():
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
    return next((one.metadata for one in _distributions(folder)), None)


def _licence(about: PackageMetadata) -> str:
    if expression := about["License-Expression"]:
        return str(expression)
    ends = [line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or [] if "License ::" in line]
    if named := [end for end in ends if end != "OSI Approved"]:
        return " AND ".join(sorted(named))
    line = str(about["License"] or "").strip()
    return line if line and "\n" not in line and len(line) < 60 else UNKNOWN


def is_licensed(licence: str, wanted: Sequence[str]) -> bool:
    """Say if a licence is one of those wanted, or gives the choice of one: `BSD` means `BSD-3-Clause` and `BSD License` too."""

    def is_one(part: str) -> bool:
        words = re.split(r"[\s()-]+", part.strip(" ()").lower())
        return any(words[: len(want)] == want for want in (re.split(r"[\s-]+", one.lower()) for one in wanted))

    parts = re.split(r"\s+and\s+|\s*&\s*", licence, flags=re.IGNORECASE)  # of metadata, which need not be SPDX's
    return all(any(map(is_one, re.split(r"\s+or\s+", part, flags=re.IGNORECASE))) for part in parts)


def _same(name: str, other: str) -> bool:
    return re.sub(r"[-_.]+", "-", name).lower() == re.sub(r"[-_.]+", "-", other).lower()
