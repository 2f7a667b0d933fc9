"""What an iterator gives next, and what becomes of it when variables are bound to something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from remedy.eval.control_flow.guide.builtins import sources, viewed
from remedy.eval.control_flow.guide.operators import Raises, Unsure, inner, member
from remedy.eval.control_flow.guide.values import UNKNOWN, Data, Items, Mapped, Value, View, Viewed, data


class Next(NamedTuple):
    """The next item, and the iterator after it."""

    item: Value
    iterator: Items


def iterator_of(value: Value) -> Value:
    """What `iter` makes of a value.

    Raises:
        Raises: it cannot be read.
        Unsure: it is not known.
    """
    if isinstance(value, Items | Mapped):
        return value
    if isinstance(value, Viewed):
        keys = tuple(value.data.value)
        if value.data.name is not None:
            return Items(keys, (), 0, value.data.name, value.view)
        return Items(tuple(viewed(value.view, value.data)), sources(value.data))
    if not isinstance(value, Data):
        raise Unsure
    one, name = value.value, value.name if value.changes else None
    if type(one) not in (list, tuple, str, bytes, range, dict, set, frozenset):
        raise Raises("TypeError")
    if name is not None:
        start = tuple(one) if type(one) in (dict, set) else ()
        return Items(start, (), 0, name, View.KEYS if type(one) is dict else View.MEMBERS)
    if type(one) in (set, frozenset) and len(one) > 1:
        return Items((UNKNOWN,) * len(one), sources(value))
    return Items(one if type(one) in (range, str) else tuple(one), sources(value))


def following(iterator: Items, variables: Mapping[str, Value]) -> Next | None:
    """The next item; None at the end.

    Raises:
        Raises: what is read has changed its size.
        Unsure: it is not known whether there is one.
    """
    items: Any = iterator.items
    if iterator.name is not None:
        items = _current(iterator, variables)
    if iterator.at >= len(items):
        return None
    after = iterator._replace(at=iterator.at + 1)
    return Next(member(items[iterator.at]), after)


def _current(iterator: Items, variables: Mapping[str, Value]) -> Any:
    """The items of a variable's value as it is now."""
    value = variables.get(iterator.name or "", UNKNOWN)
    if not isinstance(value, Data):
        raise Unsure
    now = value.value
    if type(now) is list and iterator.view is View.MEMBERS:
        return now
    if type(now) is list and iterator.view is View.COUNTED:
        return _Counted(now, iterator.first)
    if type(now) is tuple and iterator.view is View.MEMBERS:
        return now
    if type(now) in (dict, set):
        if len(now) != len(iterator.items):
            raise Raises("RuntimeError")
        if type(now) is set and iterator.view is View.MEMBERS and now == set(iterator.items):
            return (UNKNOWN,) * len(now) if len(now) > 1 else tuple(now)
        if type(now) is dict and iterator.view is not View.MEMBERS and tuple(now) == iterator.items:
            return viewed(iterator.view, value)
    raise Unsure


class _Counted:
    """A list's members with their numbers, without making them all."""

    def __init__(self, members: list[Any], first: int) -> None:
        self._members = members
        self._first = first

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, index: int) -> tuple[int, Any]:
        return self._first + index, self._members[index]


def unnamed(value: Value, name: str | None, variables: Mapping[str, Value]) -> Value:
    """A value once its variable stands for something else (None: whichever it is, since its frame is another)."""
    if isinstance(value, Data):
        return value._replace(name=None) if value.name is not None and name in (None, value.name) else value
    if isinstance(value, Viewed):
        return value._replace(data=value.data._replace(name=None)) if name in (None, value.data.name) else value
    if not isinstance(value, Items) or value.name is None or name not in (None, value.name):
        return value
    try:
        items = tuple(_current(value, variables))
    except (Unsure, Raises):
        return UNKNOWN
    return Items(items, sources(variables[value.name]), value.at)


def items_of(value: Value) -> tuple[Any, ...]:
    """The members that a call of a function for each would be given, some UNKNOWN. Raises Unsure if their number is not known."""
    iterator = iterator_of(unnamed(value, None, {}))
    if not isinstance(iterator, Items) or iterator.name is not None:
        raise Unsure
    return tuple(iterator.items[iterator.at :])


def gathered(values: tuple[Value, ...]) -> Data:
    """Values as a list that was just made."""
    return data([inner(one) for one in values], own=True)
