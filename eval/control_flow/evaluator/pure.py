"""Python's own operators, functions and methods on plain data: those that are pure, bounded in time and size. No text is run as code.

Everything raises `Raises` where the program would raise, and `Unsure` where a result is not known exactly, would be large or slow to
find, or another in another version of Python.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remedy.eval.control_flow.evaluator.values import CHANGE, UNKNOWN, Iter, Own, Raises, Unsure, known, unordered
from remedy.eval.control_flow.known import words

LARGEST = 100_000
"""Members or characters of what is made."""
BITS = 8_000
"""Of numbers; Python writes those of up to 4,300 digits."""
SAME_VERSION = sys.version_info[:2] == (3, 11)
"""Whether this interpreter computes what those compute whose traces are followed, in what versions differ: letters, sums of floats."""
UNARY: dict[str, Callable[[Any], Any]] = {"USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert}
_SIGNS = {name: name.lower() for name in words("Add Sub Mod Pow LShift RShift Lt Eq Gt")} | {
    "Mult": "mul",
    "Div": "truediv",
    "FloorDiv": "floordiv",
    "BitAnd": "and_",
    "BitOr": "or_",
    "BitXor": "xor",
    "LtE": "le",
    "NotEq": "ne",
    "GtE": "ge",
}
"""Signs by their nodes."""
READERS = words("list tuple set frozenset dict sorted sum min max any all")
_FUNCTIONS = READERS | words("len str int float bool abs repr ord chr divmod range bin hex oct round")
_ORDER_DOES_NOT_MATTER = words("len any all set frozenset bool")
_MATH = words("sqrt ceil floor gcd lcm isqrt fabs trunc isnan isinf")
_SIZED = (list, tuple, dict, set, frozenset, str, bytes, range)
_SETS = "copy union intersection difference symmetric_difference issubset issuperset isdisjoint"
MUTATORS: dict[type, frozenset[str]] = {
    list: words("append extend insert remove pop clear sort reverse"),
    dict: words("pop popitem clear update setdefault"),
    set: words("add discard remove pop clear update difference_update intersection_update symmetric_difference_update"),
}
_READ_ONLY: dict[type, frozenset[str]] = {
    list: words("index count copy"),
    tuple: words("index count"),
    dict: words("get copy keys values items"),
    set: words(_SETS),
    frozenset: words(_SETS),
    int: words("bit_length bit_count"),
    float: words("is_integer"),
    str: words(
        """capitalize casefold center count encode endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower
        isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex
        rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill"""
    ),
}


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what a pure function gives of plain data."""
    if any(type(known(one)) is range and len(one) > LARGEST for one in arguments) and function not in (len, bool):
        raise Unsure
    if not SAME_VERSION and (function is sum or not str(arguments).isascii()):
        raise Unsure
    try:
        found = function(*arguments, **named)
    except (Unsure, MemoryError, RecursionError):
        raise Unsure from None
    except Exception as error:  # of whatever kind: it is the program's own
        raise Raises(type(error).__name__) from None
    if type(found) in _SIZED and type(found) is not range and len(found) > LARGEST:
        raise Unsure
    return found


def truth(value: Any) -> bool:
    """Say if a test takes the value for true."""
    if value is UNKNOWN or (isinstance(value, Iter) and value.view):
        raise Unsure
    return bool(value) if type(value).__module__ == "builtins" else True


def binary(sign: str, one: Any, other: Any) -> Any:
    """`one sign other`."""
    numbers = isinstance(one, int) and isinstance(other, int)
    if sign not in _SIGNS or (sign == "Mod" and type(one) in (str, bytes)):
        raise Unsure
    for sequence, count in ((one, other), (other, one)):
        if sign == "Mult" and type(sequence) in _SIZED and isinstance(count, int) and len(sequence) * count > LARGEST:
            raise Unsure
    size = {
        "Pow": lambda: max(one.bit_length(), 1) * max(other, 0),
        "LShift": lambda: one.bit_length() + max(other, 0),
        "Mult": lambda: one.bit_length() + other.bit_length(),
    }
    if numbers and sign in size and size[sign]() > BITS:
        raise Unsure
    return attempt(getattr(operator, _SIGNS[sign]), one, other)


def augmented(sign: str, one: Any, other: Any) -> Any:
    """`one` after `one sign= other`."""
    if type(one) is list and sign == "Add":
        other = listed(other)
        if any(value is UNKNOWN for value in other):
            raise Unsure
    if type(one) is dict and type(other) is not dict:
        raise Unsure  # it may be pairs
    return binary(sign, one, other)


def compare(sign: str, one: Any, other: Any) -> bool:
    if sign in ("In", "NotIn"):
        return bool(attempt(operator.contains, other, one)) == (sign == "In")
    if sign in ("Is", "IsNot"):
        if type(known(one)) is type(known(other)) and type(one) not in (bool, type(None), type(...)):
            raise Unsure  # whether it is one object
        return bool((one is other) == (sign == "Is"))
    return bool(attempt(getattr(operator, _SIGNS[sign]), one, other))


def listed(value: Any) -> list[Any]:
    """Return what reading an iterable to its end gives. Members of sets are UNKNOWN, as their order is."""
    if isinstance(value, Iter):
        return list(value.items[value.at :])
    if type(known(value)) in (set, frozenset) and len(value) > 1:
        return [UNKNOWN] * len(value)
    found: list[Any] = attempt(list, value)
    return found


def unpacked(value: Any, count: int) -> list[Any]:
    """The members of a value that is taken apart into so many."""
    if type(known(value)) in _SIZED and len(value) != count:
        raise Raises("ValueError")
    return listed(value)


def call(name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return what one of Python's own functions gives."""
    if name == "isinstance" and len(given) == 2 and not named:
        return isinstance(known(given[0]), _kinds(given[1]))
    if name == "print" and not named:
        return None
    if name in ("enumerate", "zip", "reversed") and not named:
        return _iterator(name, given)
    if name.startswith("math.") and name[5:] in _MATH and not named:
        return attempt(getattr(math, name[5:]), *given)
    if name not in _FUNCTIONS or (name == "round" and len(given) > 1):
        raise Unsure
    views = [isinstance(one, Iter) and (name in READERS or (name == "len" and one.view)) for one in given]
    plain = [listed(one) if view else known(one) for one, view in zip(given, views)]
    unsure = any(one is UNKNOWN for value in plain if type(value) is list for one in value)
    if unsure or (any(map(unordered, plain)) and name not in _ORDER_DOES_NOT_MATTER):
        raise Unsure
    return attempt(getattr(builtins, name), *plain, **{word: known(one) for word, one in named.items()})


def _kinds(value: Any) -> Any:
    """Return what `isinstance` is asked about: a type of Python's own, or several."""
    if type(value) is tuple and value:
        return tuple(map(_kinds, value))
    kind = getattr(builtins, value.name, None) if isinstance(value, Own) else None
    if not isinstance(kind, type):
        raise Unsure
    return kind


def _iterator(name: str, given: Sequence[Any]) -> Iter:
    read = given if name == "zip" else given[:1]
    if not given or len(given) > {"zip": len(given), "enumerate": 2}.get(name, 1):
        raise Unsure
    lists = [listed(one) for one in read]
    sources = tuple(source for one in read for source in (one.sources if isinstance(one, Iter) else [one]))
    if name == "zip":
        return Iter(tuple(zip(*lists)), sources)
    if name == "enumerate":
        return Iter(tuple(attempt(enumerate, lists[0], *given[1:])), sources)
    if type(read[0]) not in (list, tuple, str, range, dict):
        raise Unsure
    return Iter(tuple(reversed(lists[0])), sources)


def method(receiver: Any, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return what a method gives; its object, if it is changed, is another here."""
    kind = type(known(receiver))
    mutates = name in MUTATORS.get(kind, frozenset())
    if not mutates and name not in _READ_ONLY.get(kind, frozenset()):
        raise Unsure
    if kind is dict and name in ("keys", "values", "items"):
        return Iter(tuple(getattr(receiver, name)()), (receiver,), view=name)
    plain = [known(one) for one in given]
    if unordered(plain) or (name == "pop" and unordered(receiver)):
        raise Unsure
    if kind is str:
        most = max((abs(one) for one in plain if isinstance(one, int)), default=0)
        longest = max((len(str(one)) for one in plain), default=0) if name in ("join", "replace") else 0
        if most > LARGEST or len(receiver) * longest > 100 * LARGEST:
            raise Unsure
    options = {word: known(one) for word, one in named.items()}
    return attempt(getattr(kind, name), receiver.copy() if mutates else receiver, *plain, **options)


def changed_at(container: Any, key: Any, deletes: bool) -> None:
    """Try `container[key] = ...`, or `del container[key]`."""
    if type(known(key)) is slice and not deletes:
        raise Unsure
    mine = container.copy() if type(known(container)) in CHANGE else container
    attempt(operator.delitem, mine, key) if deletes else attempt(operator.setitem, mine, key, 0)
