"""Comparison of values by their text.

Model output is parsed as a literal, never run, in linear time but for sorting. No hashes are used, which could be made to
collide.
"""

from __future__ import annotations

import ast
import re
import warnings

# The parts of built-in literals, without triple quotes, which no repr has and which could hide other strings. All else is refused
# because ast.parse takes quadratic time for some texts (f-strings). Every repetition is possessive: nothing is read twice.
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
    """Say if two reprs stand for equal values: as literals, else as text.

    Equality is Python's: `1 == True == 1.0`, sets and dicts have no order, lists and tuples differ. `nan` and reprs of
    objects are no literals.
    """
    if left == right:
        return True
    meaning = _canonical(left)
    return meaning is not None and meaning == _canonical(right)


def _canonical(text: str) -> str | None:
    """Return one text for all literals of a value, or None."""
    if not _LITERAL.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            # Model output such as `1in` or `'\d'` is no news to the user.
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return _written(ast.parse(text.lstrip(" \t"), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        return None


def _written(node: ast.expr) -> str:
    """Write a literal's syntax tree canonically; members of sets may be lists.

    Raises:
        ValueError, TypeError, OverflowError: it is no literal.
    """
    match node:
        case ast.Tuple(elts=members):
            return f"({','.join(map(_written, members))})"
        case ast.List(elts=members):
            return f"[{','.join(map(_written, members))}]"
        case ast.Set(elts=members):
            return f"{{{','.join(sorted(set(map(_written, members))))}}}"
        case ast.Dict(keys=keys, values=values):
            items = {_written(key): _written(value) for key, value in zip(keys, values) if key is not None}
            return f"{{{','.join(f'{key}:{items[key]}' for key in sorted(items))}}}"
    leaf = ast.literal_eval(node)
    return _number(leaf) if isinstance(leaf, int | float | complex) else repr(leaf)


def _number(value: complex) -> str:
    if isinstance(value, complex):
        return f"{_number(value.real)}&{_number(value.imag)}" if value.imag else _number(value.real)
    if isinstance(value, float):
        return hex(int(value)) if value.is_integer() else value.hex()
    return hex(value)
