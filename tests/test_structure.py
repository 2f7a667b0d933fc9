"""The layering of the folders, held by a test: imports go down only."""

import ast
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


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("folder", KNOWS)
def test_imports_go_down_only(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        packages = {name.split(".")[1] for name in imported(path) if name.startswith("remedy.")}
        assert packages <= KNOWS[folder] | {folder}, path


def test_data_gen_imports_no_torch() -> None:
    for path in (ROOT / "data_gen").glob("*.py"):
        assert not {n for n in imported(path) if n.split(".")[0] in {"torch", "transformers"}}, path


def test_nothing_evaluates_or_unpickles_what_comes_from_outside() -> None:
    for folder in KNOWS:
        for path in (ROOT / folder).rglob("*.py"):
            calls = {
                n.func.id
                for n in ast.walk(ast.parse(path.read_text()))
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
            }
            allowed = {"exec"} if path.name == "tracer.py" else set()
            assert not calls & {"eval", "exec"} - allowed, path
            assert "pickle" not in imported(path), path
            assert "trust_remote_code=True" not in path.read_text(), path
