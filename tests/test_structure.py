"""The layout: imports go down only, without cycles, in short files."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("remedy", "data_gen", "models", "train", "eval", "launch")
LONGEST = 350
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    names = parts[: -1 if parts[-1] == "__init__" else None]
    return ".".join(names if names[0] == "remedy" else ("remedy", *names))


MODULES = {module(path): path for path in FILES}


@lru_cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, anywhere in it; `from package import name` counts as `package.name` if that is a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found = inner & set(MODULES)
            names |= found
            if found != inner:
                names.add(node.module)
    return frozenset(names)


def test_imports_go_down_only() -> None:
    """The contracts are those of pyproject.toml."""
    limits = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run([limits, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """A package's own `__init__` may import its modules, which register themselves with it."""
    below = {
        name: {
            other
            for other in imported(MODULES[name]) & set(MODULES)
            if not (MODULES[name].name == "__init__.py" and other.startswith(f"{name}."))
        }
        for name in MODULES
    }
    while below:
        ground = [name for name, others in below.items() if not others]
        assert ground, f"circles among {sorted(below)}"
        for name in ground:
            del below[name]
        for others in below.values():
            others.difference_update(ground)


def test_every_import_of_the_package_is_a_file_under_its_plain_path() -> None:
    """Which is how an editor, a type checker or an import grapher finds it: `remedy.train.run` is remedy/train/run.py."""
    for path in [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        for name in imported(path):
            if name.split(".")[0] == "remedy":
                place = ROOT.joinpath(*name.split("."))
                assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), f"{path}: {name}"


def test_every_folder_of_code_is_installed() -> None:
    listed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for package in {module(path.parent / "__init__.py") for path in FILES}:
        assert f'    "{package}",\n' in listed, package
        assert f'\n"{package}" = "' in listed, package


def test_files_are_short() -> None:
    long = {str(path): count for path in FILES if (count := len(path.read_text().splitlines())) > LONGEST}
    assert not long


def test_nothing_evaluates_or_unpickles_what_comes_from_outside() -> None:
    for path in FILES:
        calls = {
            n.func.id
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        allowed = {"exec"} if path.name == "tracer.py" else set()
        assert not calls & {"eval", "exec"} - allowed, path
        assert "pickle" not in imported(path), path
        assert "trust_remote_code=True" not in path.read_text(), path
