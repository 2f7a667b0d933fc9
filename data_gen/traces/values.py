"""Compares values that are known by their text alone.

The text may be a model's output, which is data: it is parsed as a literal, never run.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

_NOT_A_LITERAL = object()


def same_value(left: str, right: str) -> bool:
    """Whether two reprs stand for equal values: by `ast.literal_eval` where both are literals, else as text.

    Equality is Python's, as in the benchmarks' own assertions: `1 == True == 1.0`.
    """
    if left == right:
        return True
    a, b = _literal(left), _literal(right)
    if a is _NOT_A_LITERAL or b is _NOT_A_LITERAL:
        return False
    try:
        return bool(a == b)
    except RecursionError:
        return False


def _literal(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", SyntaxWarning
            )  # `1is 2`: a warning about a model's output would confuse the user
            warnings.simplefilter("ignore", DeprecationWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _NOT_A_LITERAL
