"""Prose of reports: notes below sections, and methods."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

NOTES: dict[str, Any] = yaml.safe_load((resources.files(__package__) / "notes.yaml").read_text(encoding="utf-8"))
"""Notes by name; `methods` by topic."""
