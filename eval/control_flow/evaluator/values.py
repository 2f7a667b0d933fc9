"""What is known of values while a line is evaluated: plain data of Python's own types, something that may be called or read, or nothing.

Data never change in place here. Two values that can be changed may be one object, which a trace does not say; but one object has one
content at a time, so data that differ are two objects.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from remedy.data_gen.traces.values import literal
from remedy.eval.control_flow.moves import Point

LONGEST = 20_000
"""Characters of a value's text that is read."""
SCALARS = (int, float, complex, str, bytes, bool, type(None), range, slice, type(...))
CHANGE = (list, dict, set)
_RANGE = re.compile(r"range\((-?\d{1,9}), (-?\d{1,9})(?:, (-?\d{1,9}))?\)")
_OWN = re.compile(
    r"<module '(math)'>|<class '(int|str|float|bool|list|dict|set|tuple)'>"
    r"|<built-in function (len|ord|chr|abs|sum|min|max|sorted|any|all)>"
)
_FROZEN = re.compile(r"frozenset\((.*)\)", re.DOTALL)
_RAISED = re.compile(r"\(<class '(\w+)'>, ")


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
    """One of Python's own functions, types or modules, or an exception (`raised`) of such a type."""

    name: str
    raised: bool = False


class Iter(NamedTuple):
    """An iterator that nothing else reads, or a view of a dict. What it reads is the value of variable `name`, as it will be then; else
    `items`."""

    items: tuple[Any, ...] | range | str
    """Some may be UNKNOWN. With a name: its dict's keys, or set's members, at the beginning."""
    sources: tuple[Any, ...] = ()
    """Data with which it changes."""
    at: int = 0
    name: str | None = None
    view: str = ""
    """`keys`, `values` or `items` of a dict; `enumerate` of a list."""
    first: int = 0


class Mapped(NamedTuple):
    """Calls of a function of the program, one for each item, when they are read."""

    function: int
    items: tuple[Any, ...]
    sources: tuple[Any, ...]
    filters: bool = False
    at: int = 0


class Generator(NamedTuple):
    """A generator that nothing else reads."""

    frame: Frame
    """Where it waits."""


class Reading(NamedTuple):
    """What a frame is doing that has called a function of the program, once or for each item of a source."""

    reader: str
    """`call`, `for`, or the builtin or method that reads; `key` for functions that say how to sort."""
    source: Mapped | Generator | None = None
    got: tuple[Any, ...] = ()
    call: tuple[Any, ...] = ()
    """Of a method its object; of what sorts its name, items and other keywords."""


class Frame(NamedTuple):
    """A frame, and those below it, as far as they are known."""

    code: int
    at: int
    point: Point
    locals: Mapping[str, Any]
    kept: frozenset[str] = frozenset()
    """Variables that are as the frame last showed them."""
    shown: Mapping[str, str] | None = None
    """The variables' texts when it last did, in their order; None: that is not known."""
    below: Frame | None = None
    values: Mapping[ast.AST, Any] = {}
    """What has been evaluated of the statement that runs."""
    loops: Mapping[int, Any] = {}
    """Iterators, by the place of what reads them."""
    reading: Reading | None = None
    came: Any = UNKNOWN
    """RETURNED, YIELDED: the value that came back."""
    left: Frame | None = None
    """YIELDED: where what came back waits."""


def is_data(value: Any) -> bool:
    return isinstance(value, SCALARS) or type(value) in (*CHANGE, tuple, frozenset)


def known(value: Any) -> Any:
    """A value that is plain data. Raises Unsure for any other."""
    if type(value) in SCALARS or (type(value) in (*CHANGE, tuple, frozenset)):
        return value
    raise Unsure


def members(value: Any) -> Any:
    """What a container holds, keys too."""
    return (*value, *value.values()) if type(value) is dict else value if type(value) not in SCALARS else ()


def changes(value: Any) -> bool:
    """Whether data are or hold a list, dict or set."""
    return type(value) in CHANGE or (type(value) not in SCALARS and any(map(changes, members(value))))


def unordered(value: Any) -> bool:
    """Whether data are or hold a set of several members, whose order is not known."""
    if type(value) in SCALARS:
        return False
    return (type(value) in (set, frozenset) and len(value) > 1) or any(map(unordered, members(value)))


def may_hold(value: Any, part: Any) -> bool:
    """Whether `part`, which can be changed, may be the value or something in it, by what they are."""
    if type(value) in SCALARS:
        return False
    return (type(value) is type(part) and value == part) or any(may_hold(one, part) for one in members(value))


@lru_cache(maxsize=4_096)
def read(text: str) -> Any:
    """The value that a trace shows; UNKNOWN where its text does not say it exactly."""
    if len(text) > LONGEST:
        return UNKNOWN
    if text.startswith("<") and (own := _OWN.fullmatch(text)):
        return Own(own[1] or own[2] or own[3])
    if text.startswith("range") and (found := _RANGE.fullmatch(text)):
        numbers = [int(number) for number in found.groups() if number is not None]
        return range(*numbers) if numbers[2:] != [0] else UNKNOWN
    frozen = _FROZEN.fullmatch(text)
    try:
        value = literal(frozen[1] or "()" if frozen else text)
        return frozenset(value) if frozen else value
    except (ValueError, TypeError):
        return UNKNOWN


def read_raised(text: str) -> Any:
    """The exception that an EXCEPTION shows."""
    found = _RAISED.match(text)
    return Own(found[1], raised=True) if found else UNKNOWN
