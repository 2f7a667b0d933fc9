"""Arguments changed a little: where few calls of a function were seen, what else it could have been given."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from remedy.data_gen.harvest.inside import values
from remedy.data_gen.harvest.jobs import are_literals


def mutated(seen: Sequence[str], count: int, seed: str) -> list[str]:
    """Up to `count` texts of arguments that are not among those seen, each of one of these with one value changed.

    They are a function of what is seen and of the seed.
    """
    draw = random.Random(seed)
    pool = [value for given, named in map(values, seen) for value in [*given, *named.values()]]
    found: dict[str, None] = {}
    for _ in range(4 * count if pool else 0):
        given, named = values(draw.choice(seen))
        if places := [*range(len(given)), *named]:
            at = draw.choice(places)
            held: Any = given if isinstance(at, int) else named
            held[at] = _changed(held[at], pool, draw)
        text = ", ".join([*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())])
        if text not in seen and len(found) < count and are_literals(text):
            found[text] = None
    return list(found)


def _changed(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    """Another value of the same type: one that was seen elsewhere, or this one changed."""
    same = [one for one in pool if type(one) is type(value)]
    if len(same) > 2 and draw.random() < 0.3:
        return draw.choice(same)
    change = _CHANGES.get(type(value))
    return value if change is None else change(value, pool, draw)


def _number(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    return draw.choice([value + 1, value - 1, -value, value * 2, value + draw.randrange(2, 10), value // 2])


def _text(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    at = draw.randrange(len(value) + 1)
    ways = [value[:at] + value[at + 1 :], value[at:] + value[:at], value[::-1], value[:at] * 2 + value[at:]]
    if isinstance(value, str):
        ways += [value.swapcase(), value.upper(), value.replace(value[at : at + 1] or "a", " ")]
    return draw.choice(ways)


def _items(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    items = list(value)
    at = draw.randrange(len(items) + 1)
    way = draw.randrange(5)
    if way == 0 and items:
        items[at % len(items)] = _changed(items[at % len(items)], items, draw)
    elif way == 1:
        items = items[at:] + items[:at]
    elif way == 2:
        items = items[:at] + items[at + 1 :]
    elif way == 3:
        items = items[:at] + items[at - 1 : at] + items[at:]
    else:
        items.reverse()
    return type(value)(items)


def _entries(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    entries = dict(value)
    for key in [draw.choice(list(entries))] if entries else []:
        if draw.random() < 0.3:
            del entries[key]
        else:
            entries[key] = _changed(entries[key], list(entries.values()), draw)
    return entries


_CHANGES: dict[type, Callable[[Any, Sequence[Any], random.Random], Any]] = {
    bool: lambda value, pool, draw: not value,
    int: _number,
    float: _number,
    str: _text,
    bytes: _text,
    list: _items,
    tuple: _items,
    dict: _entries,
}
