"""Changed arguments, for functions with few recorded calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from remedy.data_gen.harvest.inside import values
from remedy.data_gen.harvest.jobs import are_literals


def mutated(seen: Sequence[str], count: int, seed: str) -> list[str]:
    """Make up to `count` new argument texts, each with one value changed."""
    draw = random.Random(seed)
    pool = [value for given, named in map(values, seen) for value in [*given, *named.values()]]
    texts: dict[str, None] = {}
    for _ in range(4 * count if pool else 0):
        given, named = values(draw.choice(seen))
        if positions := [*range(len(given)), *named]:
            position = draw.choice(positions)
            container: Any = given if isinstance(position, int) else named
            container[position] = _changed(container[position], pool, draw)
        text = ", ".join([*map(repr, given), *(f"{name}={value!r}" for name, value in named.items())])
        if text not in seen and len(texts) < count and are_literals(text):
            texts[text] = None
    return list(texts)


def _changed(value: Any, pool: Sequence[Any], draw: random.Random) -> Any:
    same = [other for other in pool if type(other) is type(value)]
    if len(same) > 2 and draw.random() < 0.3:
        return draw.choice(same)
    change = _CHANGES.get(type(value))
    return value if change is None else change(value, draw)


def _number(value: Any, draw: random.Random) -> Any:
    return draw.choice([value + 1, value - 1, -value, value * 2, value + draw.randrange(2, 10), value // 2])


def _text(value: Any, draw: random.Random) -> Any:
    cut = draw.randrange(len(value) + 1)
    variants = [value[:cut] + value[cut + 1 :], value[cut:] + value[:cut], value[::-1], value[:cut] * 2 + value[cut:]]
    if isinstance(value, str):
        variants += [value.swapcase(), value.upper(), value.replace(value[cut : cut + 1] or "a", " ")]
    return draw.choice(variants)


def _items(value: Any, draw: random.Random) -> Any:
    items = list(value)
    cut = draw.randrange(len(items) + 1)
    way = draw.randrange(5)
    if way == 0 and items:
        items[cut % len(items)] = _changed(items[cut % len(items)], items, draw)
    elif way == 1:
        items = items[cut:] + items[:cut]
    elif way == 2:
        items = items[:cut] + items[cut + 1 :]
    elif way == 3:
        items = items[:cut] + items[cut - 1 : cut] + items[cut:]
    else:
        items.reverse()
    return type(value)(items)


def _entries(value: Any, draw: random.Random) -> Any:
    entries = dict(value)
    for key in [draw.choice(list(entries))] if entries else []:
        if draw.random() < 0.3:
            del entries[key]
        else:
            entries[key] = _changed(entries[key], list(entries.values()), draw)
    return entries


_CHANGES: dict[type, Callable[[Any, random.Random], Any]] = {
    bool: lambda value, draw: not value,
    int: _number,
    float: _number,
    str: _text,
    bytes: _text,
    list: _items,
    tuple: _items,
    dict: _entries,
}
