"""Modules of a user's own that register tasks, mixers, diagnostics or other choices: imported before settings are validated."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def import_plugins(names: Any) -> str:
    """Import modules, from the current folder too; returns what is wrong with one, or an empty string."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return "plugins: must be a list of modules, such as [my_tasks]"
    if names and "" not in sys.path:
        sys.path.append("")
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # of any kind: it is a user's code
            return f"plugins: {name} cannot be imported ({type(error).__name__}: {error})"
    return ""
