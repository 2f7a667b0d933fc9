"""Write files so that they appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make the file under a hidden name, then move it into place; its folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)  # of a killed process that had this number
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
