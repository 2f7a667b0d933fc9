"""What `import remedy` gives: every public name, and none of the heavy libraries before one is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import remedy

NAMES = [name for name in remedy.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert callable(getattr(remedy, name))
    assert name in dir(remedy)


def test_type_checkers_are_told_of_every_public_name() -> None:
    tree = ast.parse(Path(remedy.__file__).read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = {name: f"remedy.{module}:{remedy._RENAMED.get(name, name)}" for name, module in remedy._WHERE.items()}
    assert told == found
    assert sorted(found) == sorted(NAMES)


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = "import remedy, sys; assert remedy.__version__; print(sorted({'torch', 'transformers', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
