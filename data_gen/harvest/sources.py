"""Packages as they lie: their modules, their tests, and what their metadata says of version and licence."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, PackageMetadata, distributions
from pathlib import Path
from typing import NamedTuple

from remedy.data_gen.execution.isolation import find_interpreter
from remedy.messages import shown
from remedy.settings import UserError

UNKNOWN = "unknown"
PYTHON_LICENCE = "PSF-2.0"
_NO_CODE = {
    *("test", "tests", "testing", "doc", "docs", "example", "examples"),
    *("benchmark", "benchmarks", "build", "dist"),
}
_NO_MODULES = {"setup", "conftest", "noxfile", "fabfile", "tasks", "__main__"}
_TEXTS = (".rst", ".md", ".txt", ".doctest")
_ASK = """
import json, sys, sysconfig
print(json.dumps([sys.path, "%d.%d.%d" % sys.version_info[:3], sysconfig.get_paths()["stdlib"], sorted(sys.stdlib_module_names)]))
"""


class Package(NamedTuple):
    """A package. `root`: the folder that it is imported from. `modules`: their names and files. `tests`: files of tests, and texts with
    examples. `libraries`: folders that its code may read."""

    name: str
    version: str
    licence: str
    root: Path
    modules: tuple[tuple[str, Path], ...]
    tests: tuple[Path, ...]
    libraries: tuple[str, ...]

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
    """Ask an interpreter for what it says of itself; the one that runs us if none is named."""
    command = [find_interpreter(python).path, "-c", _ASK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return Interpreter(*json.loads(done.stdout))


def find(word: str, python: Interpreter) -> Package:
    """The package that a word names: a folder, a distribution, or a module that can be imported.

    Raises:
        UserError: there is none, or no Python in it.
    """
    place = Path(word)
    if place.is_dir():
        found = _folder(place.absolute())
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
    return Package(word, f"Python {python.version}", PYTHON_LICENCE, root, modules, tuple(sorted(tests)), ())


def _installed(word: str, python: Interpreter) -> Package:
    folders = [path for path in python.path if path]
    for one in distributions(path=folders):
        if (about := _metadata(one)) and _same(about["Name"], word):
            root = Path(str(one.locate_file("")))
            tops = sorted({file.parts[0] for file in one.files or () if file.suffix == ".py"})
            return _found(about["Name"], about, root, [root / top for top in tops])
    spec = PathFinder.find_spec(word.split(".")[0], folders)
    if spec is None or spec.origin is None:
        raise UserError(f"there is no folder, distribution or module {shown(word)}: install it, or give its folder")
    path = Path(spec.origin)
    root = path.parent.parent if path.name == "__init__.py" else path.parent
    place = root / word.replace(".", "/")
    about = _owner(word.split(".")[0], root)
    return _found(word, about, root, [place, place.with_name(f"{place.name}.py")])


def _owner(top: str, root: Path) -> PackageMetadata | None:
    for one in distributions(path=[str(root)]):
        if any(file.parts[0] in (top, f"{top}.py") for file in one.files or ()):
            return _metadata(one)
    return None


def _metadata(one: Distribution) -> PackageMetadata | None:
    """The metadata of a distribution; None where it is no UTF-8, or has no name."""
    with contextlib.suppress(UnicodeDecodeError):
        return one.metadata if one.metadata["Name"] else None
    return None


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
    return _found(str(about["Name"]) if about else place.name, about, root, [*inner, *root.glob("*.py")], place)


def _found(
    name: str, about: PackageMetadata | None, root: Path, places: Sequence[Path], whole: Path | None = None
) -> Package:
    """A package, with the tests of `whole`, an unpacked project, or those within itself."""
    tests = [file for place in ([whole] if whole else places) for file in _tests(place)]
    libraries = tuple(dict.fromkeys(str(path) for path in (root, whole) if path is not None))
    version, licence = (str(about["Version"] or UNKNOWN), _licence(about)) if about else (UNKNOWN, UNKNOWN)
    return Package(name, version, licence, root, _modules(root, places), tuple(sorted(set(tests))), libraries)


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
        if is_test or (path.suffix in _TEXTS and "egg-info" not in path.parent.name and _has_examples(path)):
            yield path


def _has_examples(path: Path) -> bool:
    try:
        return path.is_file() and ">>> " in path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _information(folder: Path) -> PackageMetadata | None:
    for path in [folder / "PKG-INFO", *sorted(folder.glob("*.egg-info/PKG-INFO"))]:
        if path.is_file():
            return _metadata(Distribution.at(path.parent))
    return None


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
