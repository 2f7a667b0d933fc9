"""Methods of Python's own types on exact data: those that are pure but for their object, in bounded time and size."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from remedy.eval.control_flow.guide.builtins import listed
from remedy.eval.control_flow.guide.operators import LARGEST, SAME_VERSION, Unsure, attempt, member, whole
from remedy.eval.control_flow.guide.values import NONE, UNKNOWN, Data, Items, Value, View, Viewed, data
from remedy.eval.control_flow.known import words

_VIEWS = {"keys": View.KEYS, "values": View.VALUES, "items": View.ITEMS}
MUTATORS: dict[type, frozenset[str]] = {
    list: words("append extend insert remove pop clear sort reverse"),
    dict: words("pop popitem clear update setdefault"),
    set: words(
        """add discard remove pop clear update difference_update intersection_update
        symmetric_difference_update"""
    ),
}
"""Methods that change their object."""
_READ_ONLY: dict[type, str] = {
    list: "index count copy",
    tuple: "index count",
    dict: "get copy",
    set: "copy union intersection difference symmetric_difference issubset issuperset isdisjoint",
    frozenset: "copy union intersection difference symmetric_difference issubset issuperset isdisjoint",
    range: "index count",
    int: "bit_length bit_count conjugate",
    float: "is_integer conjugate hex",
    bytes: "decode hex find count startswith endswith split upper lower",
    str: """capitalize casefold center count encode endswith expandtabs find format index isalnum isalpha isascii
        isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
        partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines
        startswith strip swapcase title translate upper zfill""",
}
_ITERATE = words(
    """join extend update union intersection difference symmetric_difference issubset issuperset isdisjoint
    difference_update intersection_update symmetric_difference_update"""
)
METHODS = {kind: words(names) | MUTATORS.get(kind, frozenset()) for kind, names in _READ_ONLY.items()}
"""Those that are evaluated."""
_WIDE = re.compile(r"\d{4}")


class Done(NamedTuple):
    """What a method gave, and its object after it."""

    result: Value
    changed: Data | None
    """None: it is as before."""


def may_change(name: str, receiver: Value) -> bool:
    """Whether a method may change its object, or another."""
    if isinstance(receiver, Data):
        return name in MUTATORS.get(type(receiver.value), frozenset()) or name not in METHODS.get(
            type(receiver.value), frozenset()
        )
    return True


def call_method(receiver: Data, name: str, arguments: Sequence[Value], keywords: Sequence[str]) -> Done:
    """What a method gives, and what it makes of its object.

    Raises:
        Raises: it raises, and its object is as before.
        Unsure: it is not known, or not evaluated here.
    """
    kind = type(receiver.value)
    if kind is dict and name in _VIEWS and not arguments:
        return Done(Viewed(receiver, _VIEWS[name]), None)
    if name not in METHODS.get(kind, frozenset()):
        raise Unsure
    if kind is list and name == "append" and len(arguments) == 1 and not keywords:
        one = arguments[0]
        return Done(NONE, data([*receiver.value, one.value if isinstance(one, Data) else UNKNOWN]))
    if not receiver.whole and name not in ("pop", "clear", "copy", "get", "insert", "reverse"):
        raise Unsure
    plain = [listed(one) if isinstance(one, Viewed | Items) and name in _ITERATE else one for one in arguments]
    given = whole(*plain)
    members_order = any(isinstance(one, Data) and one.unordered for one in plain)
    if members_order and kind in (str, list, dict) and name not in ("append", "get"):
        raise Unsure
    if kind is set and name == "pop" and receiver.unordered:
        raise Unsure
    _check_method(receiver.value, name, given)
    cut = len(given) - len(keywords)
    changes = name in MUTATORS.get(kind, frozenset())
    after = receiver.value.copy() if changes else receiver.value
    result = attempt(getattr(kind, name), after, *given[:cut], **dict(zip(keywords, given[cut:])))
    new = kind in (str, bytes) or name == "copy"
    return Done(data(result, own=True) if new else member(result), data(after) if changes else None)


def _check_method(one: Any, name: str, given: list[Any]) -> None:
    """Raises Unsure where a result would be large, or another in another version of Python."""
    if type(one) is not str:
        return
    if not SAME_VERSION and not (one.isascii() and str(given).isascii()):
        raise Unsure
    if any(isinstance(number, int) and number > LARGEST for number in given):
        raise Unsure
    if name == "format":
        for _, field, spec, _ in attempt(lambda: list(string.Formatter().parse(one))):
            if field is not None and (re.search(r"[.\[]", field) or "{" in (spec or "") or _WIDE.search(spec or "")):
                raise Unsure
    texts = [text for text in given if isinstance(text, str)]
    if name in ("replace", "join", "translate"):
        size = (len(one) + 1) * (max(map(len, texts), default=0) + 1)
        if name == "join":
            size = (len(given[0]) + 1) * (len(one) + 1) if given and hasattr(given[0], "__len__") else 0
        elif name == "translate":
            size = (len(one) + 1) * (len(str(given)) + 1)
        if size > 100 * LARGEST:
            raise Unsure
    if len(one) + sum(map(len, texts)) > LARGEST:
        raise Unsure
