"""What is known of values while a line is evaluated: exact data, a function of the program, an iterator, or nothing.

Nothing here changes in place. Two values that can be changed may be one object, which a trace does not say; but one object has one
content at a time, so data that differ are two objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from remedy.data_gen.traces.values import literal
from remedy.eval.control_flow.moves import Point

LONGEST = 20_000
"""Characters of a value's text that is read."""
_RANGE = re.compile(r"range\((-?\d{1,9}), (-?\d{1,9})(?:, (-?\d{1,9}))?\)")
_OWN = re.compile(
    r"<module '(math)'>|<class '(int|str|float|bool|list|dict|set|tuple)'>"
    r"|<built-in function (len|ord|chr|abs|sum|min|max|sorted|any|all)>"
)
_FROZEN = re.compile(r"frozenset\((.*)\)", re.DOTALL)
_SCALARS = frozenset({int, float, complex, str, bytes, bool, type(None), range, slice, type(...)})
_CHANGE = (list, dict, set)


class Mark(Enum):
    """What is no value."""

    UNKNOWN = 0
    NULL = 1
    """What stands below a callee that gets no object."""

    __hash__ = object.__hash__


UNKNOWN = Mark.UNKNOWN


class Data(NamedTuple):
    """An exact value of Python's own types, or a container of which some members are UNKNOWN."""

    value: Any
    changes: bool = False
    """Whether it is or holds a list, dict or set."""
    whole: bool = True
    """Whether nothing in it is UNKNOWN."""
    unordered: bool = False
    """Whether it is or holds a set of several members, whose order is not known."""
    own: bool = False
    """Whether nothing else can hold it."""
    name: str | None = None
    """The variable that stands for it, if it was loaded from one."""


class Function(NamedTuple):
    """A function of the program."""

    code: int


class Builtin(NamedTuple):
    """One of Python's own functions or types."""

    name: str


class Module(NamedTuple):
    """A module of Python's own."""

    name: str


class Math(NamedTuple):
    """A function of the module `math`."""

    name: str


class Method(NamedTuple):
    """An attribute of what stands above it on the stack, about to be called."""

    name: str


class View(Enum):
    """What an iterator makes of the value of a variable."""

    MEMBERS = ""
    KEYS = "keys"
    VALUES = "values"
    ITEMS = "items"
    COUNTED = "enumerate"

    __hash__ = object.__hash__


class Items(NamedTuple):
    """An iterator that nothing else reads. What it reads is the value of variable `name`, as it will be then; else `items`."""

    items: tuple[Any, ...] | range | str
    """Some may be UNKNOWN. With a name: its dict's keys, or set's members, at the beginning."""
    sources: tuple[Data, ...] = ()
    """What changes with it if that is changed."""
    at: int = 0
    name: str | None = None
    view: View = View.MEMBERS
    first: int = 0
    """COUNTED: the first number."""


class Viewed(NamedTuple):
    """What `keys`, `values` or `items` of a dict gives."""

    data: Data
    view: View


class Mapped(NamedTuple):
    """What `map` or `filter` gives: calls of a function of the program, one for each item, when it is read."""

    function: int
    items: tuple[Any, ...]
    sources: tuple[Data, ...]
    filters: bool = False
    at: int = 0


class Raised(NamedTuple):
    """An exception of a class of Python's own."""

    name: str


class Generator(NamedTuple):
    """A generator that nothing else reads."""

    frame: Frame
    """Where it waits."""


Value = Data | Function | Builtin | Module | Math | Method | Items | Viewed | Mapped | Raised | Generator | Mark


class Reading(NamedTuple):
    """What a call of Python's own is doing that runs functions of the program one by one."""

    reader: str
    """Its name; `key` for functions that say how to sort."""
    source: Mapped | Generator
    got: tuple[Value, ...] = ()
    call: tuple[Any, ...] = ()
    """Of a method its object; of what sorts its name, items and other keywords."""


class Frame(NamedTuple):
    """A frame, and those below it, as far as they are known."""

    code: int
    at: int
    point: Point
    stack: tuple[Value, ...]
    whole: bool
    """Whether the stack has nothing else below."""
    locals: Mapping[str, Value]
    kept: frozenset[str]
    """Variables that are as the frame last showed them."""
    shown: Mapping[str, str] | None = None
    """The variables' texts when it last did, in their order; None: that is not known."""
    below: Frame | None = None
    reading: Reading | None = None
    came: Value = UNKNOWN
    """RETURNED, YIELDED: the value that came back."""
    left: Frame | None = None
    """YIELDED: where what came back waits."""


NONE = Data(None)
TRUE, FALSE = Data(True), Data(False)


def data(value: Any, own: bool = False) -> Data:
    """A value as data. `own`: it was just made, so that nothing else holds it (what it holds may be held by others)."""
    if type(value) in _SCALARS:
        return Data(value)
    changes, whole, unordered, deep = _traits(value)
    return Data(value, changes, whole, unordered, own and not deep)


def _traits(value: Any) -> tuple[bool, bool, bool, bool]:
    """Whether it changes, is whole and unordered; and whether a member changes."""
    kind = type(value)
    if kind in _SCALARS:
        return False, True, False, False
    if kind not in (*_CHANGE, tuple, frozenset):
        return False, False, False, False
    changes, whole, unordered, deep = kind in _CHANGE, True, kind in (set, frozenset) and len(value) > 1, False
    for one in members(value):
        if type(one) not in _SCALARS:
            inner = _traits(one)
            changes, whole, unordered = changes or inner[0], whole and inner[1], unordered or inner[2]
            deep = deep or inner[0]
    return changes, whole, unordered, deep


def members(value: Any) -> Iterator[Any]:
    """What a container holds, keys too."""
    if type(value) is dict:
        for key, one in value.items():
            yield key
            yield one
    elif type(value) in (list, tuple, set, frozenset):
        yield from value


def may_hold(value: Any, part: Data) -> bool:
    """Whether `part`, which can be changed, may be the value or something in it, by what they are."""
    if type(value) in _SCALARS:
        return False
    kind = type(part.value)
    if type(value) is kind and (_equal(value, part.value) if part.whole else True):
        return True
    return any(may_hold(one, part) for one in members(value))


def _equal(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    return one == other or not _traits(one)[1]


@lru_cache(maxsize=4_096)
def read(text: str) -> Value:
    """The value that a trace shows; UNKNOWN where its text does not say it exactly."""
    if len(text) > LONGEST:
        return UNKNOWN
    if text.startswith("<") and (found := _OWN.fullmatch(text)):
        return Module(found[1]) if found[1] else Builtin(found[2] or found[3])
    if text.startswith("range") and (found := _RANGE.fullmatch(text)):
        numbers = [int(number) for number in found.groups() if number is not None]
        return Data(range(*numbers)) if numbers[2:] != [0] else UNKNOWN
    frozen = _FROZEN.fullmatch(text)
    try:
        value = literal(frozen[1] or "()" if frozen else text)
        return data(frozenset(value) if frozen else value)
    except (ValueError, TypeError):
        return UNKNOWN


_RAISED = re.compile(r"\(<class '(\w+)'>, ")


def read_raised(text: str) -> Value:
    """The exception that an EXCEPTION shows."""
    found = _RAISED.match(text)
    return Raised(found[1]) if found else UNKNOWN
