"""Python's own functions and methods on exact data: those that are pure, in bounded time and size."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from remedy.eval.control_flow.guide.operators import LARGEST, SAME_VERSION, Raises, Unsure, attempt, member, whole
from remedy.eval.control_flow.guide.values import (
    NONE,
    UNKNOWN,
    Builtin,
    Data,
    Items,
    Module,
    Raised,
    Value,
    View,
    Viewed,
    data,
)
from remedy.eval.control_flow.known import words

_PURE = {
    name: getattr(builtins, name)
    for name in words(
        """len str int float bool abs repr ord chr round divmod pow format range bin hex oct ascii complex
        list tuple set frozenset dict sorted sum min max any all bytes slice"""
    )
}
_ORDER_DOES_NOT_MATTER = words("len sorted min max any all set frozenset bool sum dict")
_ITERATE = words("list tuple set frozenset dict sorted sum min max any all")
_NEW = words("list tuple set frozenset dict sorted")
"""What they give did not exist before."""
_MATH = words("sqrt ceil floor gcd lcm isqrt fabs trunc isnan isinf")
_SIZED = (list, tuple, dict, set, frozenset, str, bytes, range)


def has_method(receiver: Data, name: str) -> bool:
    """Whether a value of its type has such an attribute."""
    return hasattr(type(receiver.value), name)


def has_attribute(owner: Builtin | Module, name: str) -> bool:
    """Whether one of Python's own functions or types, or the module `math`, has such an attribute."""
    return hasattr(math if isinstance(owner, Module) else getattr(builtins, owner.name), name)


def listed(value: Value) -> Data:
    """What reading an iterable to its end gives, as a list of its members in their order.

    Raises:
        Raises: it cannot be read.
        Unsure: it is not known.
    """
    if isinstance(value, Viewed):
        return data(list(viewed(value.view, value.data)))
    if isinstance(value, Items) and value.name is None:
        return data(list(value.items[value.at :]))
    if not isinstance(value, Data):
        raise Unsure
    if type(value.value) not in _SIZED:
        raise Raises("TypeError")
    if len(value.value) > LARGEST:
        raise Unsure
    if type(value.value) in (set, frozenset) and len(value.value) > 1:
        return data([UNKNOWN] * len(value.value))
    return data(list(value.value))


def viewed(view: View, one: Data) -> list[Any]:
    """The members of a dict's view."""
    if view is View.ITEMS:
        return list(one.value.items())
    return list(one.value.values() if view is View.VALUES else one.value)


def sources(*values: Value) -> tuple[Data, ...]:
    """The data among values that can be changed."""
    found: tuple[Data, ...] = ()
    for value in values:
        if isinstance(value, Data) and value.changes and not value.own:
            found += (value,)
        elif isinstance(value, Viewed):
            found += (value.data,)
        elif isinstance(value, Items):
            found += value.sources
    return found


def call(name: str, arguments: Sequence[Value], keywords: Sequence[str]) -> Value:
    """What one of Python's own functions gives. `keywords`: the names of the last arguments.

    Raises:
        Raises: it raises.
        Unsure: it is not known, or not pure.
    """
    if name == "print" and not keywords:
        return NONE
    if name in ("enumerate", "zip", "reversed", "iter", "map") and not keywords:
        return _iterator(name, arguments)
    if (kind := getattr(builtins, name, None)) and isinstance(kind, type) and issubclass(kind, BaseException):
        return Raised(name)
    if name == "type" and len(arguments) == 1 and isinstance(arguments[0], Data):
        return Builtin(type(arguments[0].value).__name__)
    if name == "isinstance" and len(arguments) == 2 and not keywords:
        return data(attempt(isinstance, _instance(arguments[0]), _kinds(arguments[1])))
    if name not in _PURE:
        raise Unsure
    if name == "len" and len(arguments) == 1 and not keywords and isinstance(arguments[0], Data | Viewed):
        one = arguments[0].data if isinstance(arguments[0], Viewed) else arguments[0]
        return data(attempt(len, one.value))
    if name in ("list", "tuple") and len(arguments) == 1 and not keywords:
        return data(_PURE[name](listed(arguments[0]).value), own=True)
    key = None
    if "key" in keywords and name in ("sorted", "min", "max"):
        at = len(arguments) - len(keywords) + list(keywords).index("key")
        key = arguments[at]
        arguments = [*arguments[:at], *arguments[at + 1 :]]
        keywords = [one for one in keywords if one != "key"]
        if not (isinstance(key, Builtin) and key.name in ("len", "str", "int", "abs", "float", "ord", "sum", "bool")):
            raise Unsure
    given = [_argument(name, one, key is not None) for one in arguments]
    attempt(_check, name, given)
    cut = len(given) - len(keywords)
    named = dict(zip(keywords, given[cut:]))
    if isinstance(key, Builtin):
        named["key"] = _PURE[key.name]
    return data(attempt(_PURE[name], *given[:cut], **named), own=name in _NEW)


def call_math(name: str, arguments: Sequence[Value]) -> Data:
    """What a function of the module `math` gives, of those that give the same on every machine.

    Raises:
        Raises: it raises.
        Unsure: it is not known, or not one of those.
    """
    if name not in _MATH:
        raise Unsure
    return data(attempt(getattr(math, name), *whole(*arguments)))


def _argument(name: str, value: Value, keyed: bool) -> Any:
    """An argument of a pure function as Python has it."""
    if isinstance(value, Viewed | Items) and name in _ITERATE:
        value = listed(value)
    [found] = whole(value)
    if isinstance(value, Data) and value.unordered:
        if name not in _ORDER_DOES_NOT_MATTER or keyed:
            raise Unsure
        if type(found) in (set, frozenset) and name != "dict":
            kinds = {type(one) for one in found}
            if name in ("sorted", "min", "max") and not (kinds <= {int} or kinds <= {str}):
                raise Unsure
            if name == "sum" and not kinds <= {int}:
                raise Unsure
        elif name in ("dict", "sum", "sorted", "min", "max"):
            raise Unsure
    return found


def _instance(value: Value) -> Any:
    """A value of the same type as one that may be known in part. Raises Unsure where its type is not known."""
    if isinstance(value, Builtin):
        return getattr(builtins, value.name)
    if not isinstance(value, Data):
        raise Unsure
    return value.value if value.whole else type(value.value)()


def _kinds(value: Value) -> Any:
    """What `isinstance` is asked about: a type of Python's own, or several. Raises Unsure where one is not known."""
    if isinstance(value, Data) and type(value.value) is tuple:
        return tuple(_kinds(member(one)) for one in value.value)
    if not isinstance(value, Builtin):
        return whole(value)[0]
    return getattr(builtins, value.name)


def _check(name: str, given: list[Any]) -> None:
    """Raises Unsure where a result would be large, slow to find, or another in another version of Python."""
    if name in ("bytes", "format", "complex"):
        raise Unsure
    if name in ("pow", "round") and not all(
        isinstance(one, int | float) and abs(one) < 100 for one in given[name == "round" :]
    ):
        raise Unsure
    if any(type(one) is range and len(one) > LARGEST for one in given) and name != "bool":
        raise Unsure
    if name == "sum" and not SAME_VERSION and not all(type(one) is int for one in given[0]):
        raise Unsure
    if name in ("int", "float", "repr", "ascii", "str") and not SAME_VERSION and not str(given[:1]).isascii():
        raise Unsure


def _iterator(name: str, arguments: Sequence[Value]) -> Value:
    """What `enumerate` and others give, as far as it depends on nothing that is not known."""
    if name == "map":
        if len(arguments) != 2 or not isinstance(arguments[0], Builtin) or arguments[0].name not in _PURE:
            raise Unsure
        function = arguments[0].name
        try:
            results = [call(function, [member(one)], ()) for one in listed(arguments[1]).value]
        except Raises:  # when that item is read, and not now
            raise Unsure from None
        if not all(isinstance(one, Data) for one in results):
            raise Unsure
        return Items(tuple(one.value for one in results if isinstance(one, Data)), sources(arguments[1]))
    if name == "enumerate" and arguments and isinstance(arguments[0], Data) and arguments[0].name is not None:
        [first] = whole(*arguments[1:]) or [0]
        if type(arguments[0].value) is list and type(first) is int:
            return Items((), (), 0, arguments[0].name, View.COUNTED, first)
    if name == "reversed" and len(arguments) == 1:
        if not isinstance(arguments[0], Data) or type(arguments[0].value) in (set, frozenset):
            raise Unsure
        return Items(tuple(reversed(listed(arguments[0]).value)), sources(arguments[0]))
    if name == "iter":
        raise Unsure  # who holds it is not followed
    read = arguments if name == "zip" else arguments[:1]
    lists = [listed(one).value for one in read]
    if name == "zip":
        return Items(tuple(zip(*lists)), sources(*read))
    [first] = whole(*arguments[1:]) or [0]
    if not lists or type(first) is not int:
        raise Unsure
    return Items(tuple(enumerate(lists[0], first)), sources(*read))
