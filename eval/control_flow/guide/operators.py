"""Python's own operators on exact data: pure, and bounded in time and size. No text is run as code."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable
from typing import Any

from remedy.eval.control_flow.guide.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Builtin,
    Data,
    Function,
    Mark,
    Value,
    Viewed,
    data,
)

LARGEST = 100_000
"""Members or characters of what is made."""
BITS = 8_000
"""Of numbers; Python writes those of up to 4,300 digits."""
SAME_VERSION = sys.version_info[:2] == (3, 11)
"""Whether this interpreter computes what those compute whose traces are followed, in what versions differ: letters, sums of floats."""


class Unsure(Exception):
    """The result is not known exactly, or would be too large."""


class Raises(Exception):
    """The program raises an exception, of the class that `name` says."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "@": operator.matmul,
}
_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd,
    "-": operator.isub,
    "*": operator.imul,
    "&": operator.iand,
    "|": operator.ior,
    "^": operator.ixor,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_POSITIVE": operator.pos,
    "UNARY_INVERT": operator.invert,
}
_WIDE = re.compile(r"\d{4}|\*")
_SEQUENCES = (str, bytes, list, tuple)


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a pure function gives.

    Raises:
        Raises: what it raises, the program does too.
        Unsure: it needs more than is allowed here.
    """
    try:
        return function(*arguments, **named)
    except (Unsure, MemoryError, RecursionError):
        raise Unsure from None
    except Exception as error:  # of whatever kind: it is the program's own
        raise Raises(type(error).__name__) from None


def truth(value: Value) -> bool | None:
    """Whether a test takes the value for true; None: not known."""
    if isinstance(value, Data | Viewed):
        return bool(value.value if isinstance(value, Data) else value.data.value)
    return None if isinstance(value, Mark) else True


def member(value: Any) -> Value:
    """What a container holds, as a value."""
    found: Value = data(value) if type(value).__module__ == "builtins" else value
    return found


def inner(value: Value) -> Any:
    """A value as a container holds it: what more than one could read from there is not known any more."""
    if isinstance(value, Data):
        return value.value
    return value if isinstance(value, Function | Builtin) else UNKNOWN


def whole(*values: Value) -> list[Any]:
    """Values that are known exactly. Raises Unsure if one is not."""
    found = []
    for value in values:
        if not isinstance(value, Data) or not value.whole:
            raise Unsure
        found.append(value.value)
    return found


def binary(sign: str, left: Value, right: Value) -> Data:
    """`left sign right`; with a sign like `+=` in place, which here gives another value."""
    operation = sign.rstrip("=")
    if not (isinstance(left, Data) and isinstance(right, Data)):
        raise Unsure
    one, other = left.value, right.value
    both_lists = type(one) is type(other) and type(one) in (list, tuple) and operation == "+"
    if not both_lists:
        whole(left, right)
    _check(operation, one, other)
    in_place = sign.endswith("=") and type(one) in (list, set, dict)
    if in_place and right.unordered and type(one) is list:
        raise Unsure  # in which order the members come
    if operation == "%" and type(one) in (str, bytes) and (right.unordered or not SAME_VERSION):
        raise Unsure
    if in_place and operation in _IN_PLACE:
        return data(attempt(_IN_PLACE[operation], one.copy(), other))
    return data(attempt(_BINARY[operation], one, other), own=True)


def _check(operation: str, one: Any, other: Any) -> None:
    """Raises Unsure where a result would be large, or slow to find."""
    if operation == "**" and isinstance(one, int) and isinstance(other, int):
        if other > 0 and max(one.bit_length(), 1) * other > BITS:
            raise Unsure
    elif operation == "<<" and isinstance(one, int) and isinstance(other, int):
        if one.bit_length() + max(other, 0) > BITS:
            raise Unsure
    elif operation == "*":
        for sequence, count in ((one, other), (other, one)):
            if type(sequence) in _SEQUENCES and isinstance(count, int) and len(sequence) * count > LARGEST:
                raise Unsure
        if isinstance(one, int) and isinstance(other, int) and one.bit_length() + other.bit_length() > BITS:
            raise Unsure
    elif operation == "%" and type(one) in (str, bytes):
        template = one if type(one) is str else one.decode("latin-1")
        if _WIDE.search(template):
            raise Unsure


def compare(sign: str, left: Value, right: Value) -> Data:
    if isinstance(left, Builtin) and isinstance(right, Builtin) and sign in ("==", "!="):
        return TRUE if (left == right) == (sign == "==") else FALSE
    one, other = whole(left, right)
    return Data(attempt(_COMPARE[sign], one, other))


def unary(name: str, value: Value) -> Data:
    return data(attempt(_UNARY[name], *whole(value)))


def same(left: Value, right: Value) -> Data:
    """`left is right`, which data tell where one is a single object."""
    if isinstance(left, Builtin) and isinstance(right, Builtin):
        return TRUE if left == right else FALSE
    singles = (bool, type(None), type(...))
    if not (isinstance(left, Data) and isinstance(right, Data)):
        raise Unsure
    one, other = left.value, right.value
    if type(one) in singles or type(other) in singles or type(one) is not type(other):
        return TRUE if one is other else FALSE
    raise Unsure


def is_in(item: Value, container: Value) -> Data:
    if isinstance(container, Viewed):
        one, viewed = whole(item, container.data)
        return Data(attempt(operator.contains, getattr(viewed, container.view.value)(), one))
    one, other = whole(item, container)
    if type(other) is range and not isinstance(one, int) and len(other) > LARGEST:
        raise Unsure
    return Data(attempt(operator.contains, other, one))


def subscript(container: Value, key: Value) -> Value:
    [at] = whole(key)
    if not isinstance(container, Data):
        raise Unsure
    found = attempt(operator.getitem, container.value, at)
    return data(found, own=True) if type(at) is slice else member(found)


def store(container: Value, key: Value, value: Value) -> Data:
    """The container after `container[key] = value`."""
    [at] = whole(key)
    if not isinstance(container, Data):
        raise Unsure
    new = container.value
    if type(at) is slice:
        whole(value)
        if isinstance(value, Data) and value.unordered:
            raise Unsure
    if type(new) in (list, dict):
        new = new.copy()
    attempt(operator.setitem, new, at, inner(value))
    return data(new)


def delete(container: Value, key: Value) -> Data:
    """The container after `del container[key]`."""
    [at] = whole(key)
    if not isinstance(container, Data):
        raise Unsure
    new = container.value
    if type(new) in (list, dict):
        new = new.copy()
    attempt(operator.delitem, new, at)
    return data(new)


def written(value: Value, conversion: int, spec: Value) -> Data:
    """A value in an f-string. `conversion`: 1 to 3 for `!s`, `!r` and `!a`."""
    one, how = whole(value, spec)
    if (isinstance(value, Data) and (value.unordered or _WIDE.search(how))) or not SAME_VERSION:
        raise Unsure
    convert: list[Callable[[Any], Any]] = [lambda same: same, str, repr, ascii]
    return data(attempt(lambda: format(convert[conversion](one), how)))


def unpacked(value: Value, count: int) -> list[Value]:
    """The members of a value that is taken apart into so many."""
    if not isinstance(value, Data) or type(value.value) not in (list, tuple, str, bytes, dict, set, frozenset, range):
        raise Unsure
    if len(value.value) != count:
        raise Raises("ValueError")
    if value.unordered and type(value.value) in (set, frozenset):
        return [UNKNOWN] * count
    return [member(one) for one in value.value]
