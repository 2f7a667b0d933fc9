"""Compares values that are known by their text alone.

The text may be a model's output, which is data: it is parsed as a literal, never run. The time is linear in the texts, but for
sorting the members of sets and dicts: nothing is hashed whose hashes could be made to collide.
"""

from __future__ import annotations

import ast
import re
import warnings

# What literals of built-in values are made of, without strings in triple quotes, which no repr has and under which others could hide.
# ast.parse takes quadratic time for some other texts (f-strings). Every repetition is possessive: nothing is read twice.
_LITERAL = re.compile(
    r"""(?:[\s,:(){}\[\]+\-]
    | \.?[0-9][\w.]*+
    | (?:True|False|None)(?!\w)
    | set\(\s*+\)
    | (?:[uU]|[bB]?[rR]?|[rR][bB])
      (?:'(?!'')[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"(?!"")[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")
    | \#[^\n]*+)*+""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)


def same_value(left: str, right: str) -> bool:
    """Say if two reprs stand for equal values: as literals where both are, else as text.

    Equality is Python's, as in the benchmarks' own assertions: `1 == True == 1.0`, sets and dicts have no order, lists and tuples
    differ. What is no literal, as `nan` or an object's repr, equals its own text only.
    """
    if left == right:
        return True
    meaning = _canonical(left)
    return meaning is not None and meaning == _canonical(right)


def _canonical(text: str) -> str | None:
    """One text for all literals of one value; None for what is no literal."""
    if not _LITERAL.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            # About a model's output, which a warning would be no news of: `1in`, `'\d'`.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return _written(ast.parse(text.lstrip(" \t"), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        return None


def _written(node: ast.expr) -> str:
    """The canonical text of a literal's syntax tree. Raises ValueError, TypeError or OverflowError for any other tree.

    Members of sets and keys may be lists: so strings are written in some encodings.
    """
    match node:
        case ast.Tuple(elts=members):
            return f"({','.join(map(_written, members))})"
        case ast.List(elts=members):
            return f"[{','.join(map(_written, members))}]"
        case ast.Set(elts=members):
            return f"{{{','.join(sorted(set(map(_written, members))))}}}"
        case ast.Dict(keys=keys, values=values):
            found = {_written(key): _written(value) for key, value in zip(keys, values) if key is not None}
            return f"{{{','.join(f'{key}:{found[key]}' for key in sorted(found))}}}"
    leaf = ast.literal_eval(node)
    return _number(leaf) if isinstance(leaf, int | float | complex) else repr(leaf)


def _number(value: complex) -> str:
    if isinstance(value, complex):
        return f"{_number(value.real)}&{_number(value.imag)}" if value.imag else _number(value.real)
    if isinstance(value, float):
        return hex(int(value)) if value.is_integer() else value.hex()
    return hex(value)
