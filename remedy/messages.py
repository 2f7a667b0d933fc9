"""Values and names in messages: short, on one line."""

from __future__ import annotations

import difflib
import re
import reprlib
import unicodedata
from collections.abc import Iterable
from typing import Any

MOST_CHARACTERS = 80
"""The most characters of a value in a message."""
MOST_OF_LINE = 600
"""The most characters of a message's line."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that are escaped: controls (ANSI escapes), direction marks, surrogates, private use, unassigned, separators."""
_NAMES = 40
"""The most valid names in a message."""

_repr = reprlib.Repr()
_repr.maxlevel = 4
_repr.maxstring = _repr.maxother = _repr.maxlong = MOST_CHARACTERS


def install(extra: str) -> str:
    """Say how to install an optional part of this package."""
    return f"run pip install -e '.[{extra}]' in your clone of cwm-remedy"


def plural(count: int, noun: str) -> str:
    """Write `1 run`, `2 runs`, `2 passes`."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{'' if count == 1 else ending}"


def shown(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Write a value's repr, cut in the middle to `most` characters."""
    return cut(_repr.repr(value), most)


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """Cut a text in the middle to `most` characters."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def escaped(text: str, keep: str = "") -> str:
    """Escape control and format characters, except those in `keep`.

    A terminal must not obey programs, names and model output.
    """
    if text.isprintable():
        return text
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else ascii(c)[1:-1] for c in text)


def safe_in_markdown(text: str) -> str:
    """Escape Markdown tags, links and images."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", escaped(text, "\n")).replace("](", "]\\(")


def one_line(text: str, most: int = MOST_OF_LINE) -> str:
    """Put a text on one bounded line without control characters."""
    # Cut first: a stranger's text may be of any length.
    return cut(" ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split()), most)


def suggest(name: str, valid: Iterable[str]) -> str:
    """Suggest the nearest valid name, or list the valid names."""
    names = list(valid)
    matches = difflib.get_close_matches(name[:MOST_CHARACTERS], names, n=1, cutoff=0.6)
    if matches:
        return f"did you mean {matches[0]!r}?"
    remainder = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"valid here: {', '.join(names[:_NAMES])}{remainder}"
