"""Holds the layout: folders and the rooms inside them import downwards only, without cycles, in short files."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KNOWS = {
    "data_gen": set(),
    "models": {"data_gen"},
    "train": {"data_gen", "models"},
    "eval": {"data_gen", "models"},
    "launch": {"data_gen", "models", "train", "eval"},
}
# Inside a folder: each floor may import itself and the floors before it. A file or folder that is named on no floor is on the last.
FLOORS = {
    "data_gen": [
        [
            "roles",
            "tokens",
            "messages",
            "yaml_text",
            "settings",
            "registry",
            "reference",
            "rng",
            "files",
            "orphans",
            "owner",
            "processes",
            "sealed",
            "splits",
            "speed",
            "workers",
        ],
        ["execution"],
        ["control_flow", "traces"],
        ["rewrites", "memory"],
        ["tasks"],
        ["config"],
        ["examples"],
        ["prompts", "shards", "card", "mixture", "windows"],
    ],
    "eval": [
        [
            "backend",
            "baselines",
            "colours",
            "sight",
            "allowed",
            "control_flow",
            "grammar",
            "guided",
            "known_text",
            "call_depth",
            "forcings",
            "decoding",
            "progress",
            "world",
            "folder",
            "constrained",
            "constraints",
            "memory",
            "generators",
            "model_frames",
            "stats",
            "failures",
            "records",
            "remarks",
            "summary",
            "generations",
            "sections",
            "plotting",
        ],
        ["diagnostics", "costs"],
        ["config", "scoring"],
        ["checkpoint", "conditions", "shares"],
        ["evaluate"],
        ["trust"],
        ["simulate"],
        ["view"],
        ["report"],
    ],
}
LONGEST = 350
FILES = sorted(path for folder in KNOWS for path in (ROOT / folder).rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("remedy", *parts[: -1 if parts[-1] == "__init__" else None]))


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


def floor(folder: str, name: str) -> int:
    """The floor of a module of a folder, counted from the ground."""
    room = name.split(".")[2] if name.count(".") > 1 else ""
    return next((number for number, rooms in enumerate(FLOORS[folder]) if room in rooms), len(FLOORS[folder]))


@pytest.mark.parametrize("folder", KNOWS)
def test_folders_import_downwards_only(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        packages = {name.split(".")[1] for name in imported(path) if name.startswith("remedy.")}
        assert packages <= KNOWS[folder] | {folder}, path


@pytest.mark.parametrize("folder", FLOORS)
def test_the_rooms_of_a_folder_import_downwards_only(folder: str) -> None:
    upwards = [
        f"{name} -> {other}"
        for name in MODULES
        if name.startswith(f"remedy.{folder}.")
        for other in imported(MODULES[name])
        if other.startswith(f"remedy.{folder}.") and floor(folder, other) > floor(folder, name)
    ]
    assert not upwards


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


def test_data_gen_imports_no_torch() -> None:
    for path in (ROOT / "data_gen").rglob("*.py"):
        assert not {n for n in imported(path) if n.split(".")[0] in {"torch", "transformers"}}, path


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
