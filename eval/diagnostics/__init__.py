"""Diagnostics: grids of conditions over a checkpoint's data."""

from remedy.eval.diagnostics import composition, permutation, programs, two_by_two  # noqa: F401 (each registers itself)
from remedy.eval.diagnostics.condition import DIAGNOSTICS, Condition, Diagnostic

__all__ = ["DIAGNOSTICS", "Condition", "Diagnostic"]
