"""Values while a line is evaluated: plain data of Python's own types, what may be called or read, or nothing known.

Data never change in place here. Two values that can be changed may be one object, which a trace does not say; but one object has one
content at a time, so data that differ are two objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from remedy.data_gen.traces.values import literal

LONGEST = 20_000
"""Characters of a value's text that is read."""
SCALARS = (int, float, complex, str, bytes, bool, type(None), range, slice, type(...))
CHANGE = (list, dict, set)
_RANGE = re.compile(r"range\((-?\d{1,9}), (-?\d{1,9})(?:, (-?\d{1,9}))?\)")
_OWN = re.compile(r"<(?:module '(?=math')|class ')(math|int|str|float|bool|list|dict|set|tuple)'>")


class Unknown(Enum):
    """No value."""

    UNKNOWN = 0


UNKNOWN = Unknown.UNKNOWN


class Unsure(Exception):
    """A value is not known exactly, or would be too large."""


class Raises(Exception):
    """The program raises an exception of Python's own."""


class Function(NamedTuple):
    """A function of the program."""

    code: int


class Own(NamedTuple):
    """One of Python's own functions, types or modules; after a dot, an attribute of one, or of data."""

    name: str


class Iter(NamedTuple):
    """An iterator that nothing else reads, or a view of a dict (`view`: its name)."""

    items: tuple[Any, ...] | range | str
    """Some may be UNKNOWN."""
    sources: tuple[Any, ...] = ()
    """Data with which it changes."""
    at: int = 0
    view: str = ""


def is_data(value: Any) -> bool:
    """Say if a value is plain data."""
    return type(value) in SCALARS or type(value) in (list, dict, set, tuple, frozenset)


def known(value: Any) -> Any:
    """A value that is plain data. Raises Unsure for any other."""
    if not is_data(value):
        raise Unsure
    return value


def members(value: Any) -> Iterable[Any]:
    """Return what a container holds, keys too."""
    if type(value) is dict:
        return (*value, *value.values())
    return value if type(value) in (list, tuple, set, frozenset) else ()


def changes(value: Any) -> bool:
    """Say if data are or hold a list, dict or set."""
    return type(value) in CHANGE or any(map(changes, members(value)))


def unordered(value: Any) -> bool:
    """Say if data are or hold a set of several members, whose order is not known."""
    return (type(value) in (set, frozenset) and len(value) > 1) or any(map(unordered, members(value)))


def may_hold(value: Any, part: Any) -> bool:
    """Say if `part`, which can be changed, may be the value or something in it, by what they are."""
    return (type(value) is type(part) and value == part) or any(may_hold(one, part) for one in members(value))


@lru_cache(maxsize=4_096)
def read(text: str) -> Any:
    """The value that a trace shows; UNKNOWN where its text does not say it exactly."""
    if len(text) > LONGEST:
        return UNKNOWN
    if text.startswith("<") and (own := _OWN.fullmatch(text)):
        return Own(own[1])
    if text.startswith("range") and (found := _RANGE.fullmatch(text)):
        numbers = [int(number) for number in found.groups() if number is not None]
        return range(*numbers) if numbers[2:] != [0] else UNKNOWN
    try:
        return literal(text)
    except (ValueError, TypeError):
        return UNKNOWN
