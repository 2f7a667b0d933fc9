"""Python's own operators, functions and methods on plain data: those that are pure, bounded in time and size. No text is run as code.

Everything raises `Raises` where the program would raise, and `Unsure` where a result is not known exactly, would be large or slow to
find, or another in another version of Python.
"""

from __future__ import annotations

import builtins
import math
import operator
import re
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remedy.eval.control_flow.evaluator.values import CHANGE, UNKNOWN, Iter, Own, Raises, Unsure, is_data, known, unordered
from remedy.eval.control_flow.known import words

LARGEST = 100_000
"""Members or characters of what is made."""
BITS = 8_000
"""Of numbers; Python writes those of up to 4,300 digits."""
SAME_VERSION = sys.version_info[:2] == (3, 11)
"""Whether this interpreter computes what those compute whose traces are followed, in what versions differ: letters, sums of floats."""
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}
_IN_PLACE = {"Add": operator.iadd, "BitAnd": operator.iand, "BitOr": operator.ior, "BitXor": operator.ixor, "Sub": operator.isub}
UNARY: dict[str, Callable[[Any], Any]] = {
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Not": operator.not_,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Gt": operator.gt,
    "GtE": operator.ge,
}
_FUNCTIONS = {
    name: getattr(builtins, name)
    for name in words(
        """len str int float bool abs repr ord chr round divmod pow range bin hex oct ascii list tuple set frozenset dict
        sorted sum min max any all slice"""
    )
}
ITERATE = words("list tuple set frozenset dict sorted sum min max any all")
_ORDER_DOES_NOT_MATTER = words("len sorted min max any all set frozenset bool sum")
_MATH = words("sqrt ceil floor gcd lcm isqrt fabs trunc isnan isinf")
_SIZED = (list, tuple, dict, set, frozenset, str, bytes, range)
_SETS = "copy union intersection difference symmetric_difference issubset issuperset isdisjoint"
MUTATORS: dict[type, frozenset[str]] = {
    list: words("append extend insert remove pop clear sort reverse"),
    dict: words("pop popitem clear update setdefault"),
    set: words(
        "add discard remove pop clear update difference_update intersection_update symmetric_difference_update"
    ),
}
READ_ONLY: dict[type, frozenset[str]] = {
    list: words("index count copy"),
    tuple: words("index count"),
    dict: words("get copy keys values items"),
    set: words(_SETS),
    frozenset: words(_SETS),
    range: words("index count"),
    int: words("bit_length bit_count conjugate"),
    float: words("is_integer conjugate hex"),
    bytes: words("decode hex find count startswith endswith split upper lower"),
    str: words(
        """capitalize casefold center count encode endswith expandtabs find format index isalnum isalpha isascii
        isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
        partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines
        startswith strip swapcase title translate upper zfill"""
    ),
}
READING_METHODS = frozenset().union(*READ_ONLY.values()) - frozenset().union(*MUTATORS.values())
"""Names of methods that change no object of Python's own types."""
_READ_WHOLE = words(
    """join extend update union intersection difference symmetric_difference issubset issuperset isdisjoint
    difference_update intersection_update symmetric_difference_update"""
)
_WIDE = re.compile(r"\d{4}|\*")


def attempt(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a pure function gives."""
    try:
        found = function(*arguments, **named)
    except (Unsure, MemoryError, RecursionError):
        raise Unsure from None
    except Exception as error:  # of whatever kind: it is the program's own
        raise Raises(type(error).__name__) from None
    if type(found) in _SIZED and type(found) is not range and len(found) > LARGEST:
        raise Unsure
    return found


def truth(value: Any) -> bool | None:
    """Whether a test takes the value for true; None: not known."""
    if value is UNKNOWN:
        return None
    if isinstance(value, Iter):
        return None if value.view in ("keys", "values", "items") else True
    return bool(value) if type(value).__module__ == "builtins" else True


def binary(sign: str, one: Any, other: Any, in_place: bool = False) -> Any:
    """`one sign other`; in place, which here gives another value."""
    if sign not in BINARY:
        raise Unsure
    known(one)
    known(other)
    _check(sign, one, other)
    if in_place and type(one) in CHANGE and sign in _IN_PLACE:
        if type(one) is list and unordered(other):
            raise Unsure  # in which order the members come
        return attempt(_IN_PLACE[sign], one.copy(), other)
    return attempt(BINARY[sign], one, other)


def _check(sign: str, one: Any, other: Any) -> None:
    """Whether a result would be large, or slow to find."""
    _check_range(other)
    whole = isinstance(one, int) and isinstance(other, int)
    if sign == "Mult":
        for sequence, count in ((one, other), (other, one)):
            if type(sequence) in (str, bytes, list, tuple) and isinstance(count, int) and len(sequence) * count > LARGEST:
                raise Unsure
    size = {
        "Pow": lambda: max(one.bit_length(), 1) * max(other, 0),
        "LShift": lambda: one.bit_length() + max(other, 0),
        "Mult": lambda: one.bit_length() + other.bit_length(),
    }
    if whole and sign in size and size[sign]() > BITS:
        raise Unsure
    if sign == "Mod" and type(one) in (str, bytes):
        template = one if type(one) is str else one.decode("latin-1")
        if _WIDE.search(template) or unordered(other) or not SAME_VERSION:
            raise Unsure


def _check_range(*values: Any) -> None:
    """Whether reading one of them takes long."""
    if any(type(one) is range and len(one) > LARGEST for one in values):
        raise Unsure


def compare(sign: str, one: Any, other: Any) -> bool:
    if one is UNKNOWN or other is UNKNOWN:
        raise Unsure
    if sign in ("In", "NotIn"):
        return _contains(one, other) == (sign == "In")
    if sign in ("Is", "IsNot"):
        return _same(one, other) == (sign == "Is")
    if isinstance(one, Own) and isinstance(other, Own) and sign in ("Eq", "NotEq") and not (one.raised or other.raised):
        return (one == other) == (sign == "Eq")
    found: bool = attempt(_COMPARE[sign], known(one), known(other))
    return found


def _same(one: Any, other: Any) -> bool:
    """`one is other`, which data tell where one is a single object."""
    if isinstance(one, Own) and isinstance(other, Own) and not (one.raised or other.raised):
        return one == other
    single = (bool, type(None), type(...))
    if type(one) in single or type(other) in single or type(known(one)) is not type(known(other)):
        return one is other
    raise Unsure


def _contains(one: Any, other: Any) -> bool:
    if isinstance(other, Iter) and other.view in ("keys", "values") and other.name is None and not other.at:
        other = attempt(dict.fromkeys, other.items) if other.view == "keys" else list(other.items)
    if type(known(other)) is range and not isinstance(known(one), int) and len(other) > LARGEST:
        raise Unsure
    found: bool = attempt(operator.contains, other, known(one))
    return found


def subscript(container: Any, key: Any) -> Any:
    return attempt(operator.getitem, known(container), key if type(key) is slice else known(key))


def stored(container: Any, key: Any, value: Any) -> Any:
    """The container after `container[key] = value`."""
    _check_range(known(value))
    if type(key) is slice and unordered(value):
        raise Unsure
    new = container.copy() if type(known(container)) in CHANGE else container
    attempt(operator.setitem, new, known(key), known(value))
    return new


def deleted(container: Any, key: Any) -> Any:
    """The container after `del container[key]`."""
    new = container.copy() if type(known(container)) in CHANGE else container
    attempt(operator.delitem, new, known(key))
    return new


def formatted(value: Any, conversion: int, spec: str) -> str:
    """A value in an f-string."""
    if unordered(known(value)) or _WIDE.search(spec) or not SAME_VERSION:
        raise Unsure
    convert: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}
    found: str = attempt(lambda: format(convert.get(conversion, lambda same: same)(value), spec))
    return found


def unpacked(value: Any, count: int) -> list[Any]:
    """The members of a value that is taken apart into so many."""
    if type(value) not in _SIZED:
        raise Unsure
    if len(value) != count:
        raise Raises("ValueError")
    return [UNKNOWN] * count if type(value) in (set, frozenset) and count > 1 else list(value)


def listed(value: Any) -> list[Any]:
    """What reading an iterable to its end gives. Members of sets are UNKNOWN, as their order is."""
    if isinstance(value, Iter) and value.name is None:
        return list(value.items[value.at :])
    if type(known(value)) not in _SIZED:
        raise Raises("TypeError")
    if len(value) > LARGEST:
        raise Unsure
    return [UNKNOWN] * len(value) if type(value) in (set, frozenset) and len(value) > 1 else list(value)


def call(name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What one of Python's own functions gives."""
    if name.startswith("math."):
        if name[5:] not in _MATH or named:
            raise Unsure
        return attempt(getattr(math, name[5:]), *map(known, given))
    if name == "print" and not named:
        return None
    if isinstance(kind := getattr(builtins, name, None), type) and issubclass(kind, BaseException):
        return Own(name, raised=True)
    if name == "type" and len(given) == 1:
        return Own(type(known(given[0])).__name__)
    if name == "isinstance" and len(given) == 2 and not named:
        return attempt(isinstance, _instance(given[0]), _kinds(given[1]))
    if name == "len" and len(given) == 1 and isinstance(given[0], Iter) and given[0].view not in ("", "enumerate"):
        return len(listed(given[0]))
    if name not in _FUNCTIONS:
        raise Unsure
    options = dict(named)
    key = options.pop("key", None)
    if key is not None:
        if not isinstance(key, Own) or key.name not in words("len str int abs float ord sum bool") or name not in words("sorted min max"):
            raise Unsure
        options["key"] = _FUNCTIONS[key.name]
    plain = [known(listed(one) if isinstance(one, Iter) and name in ITERATE else one) for one in given]
    _check_call(name, plain, key is not None)
    return attempt(_FUNCTIONS[name], *plain, **{word: one if word == "key" else known(one) for word, one in options.items()})


def _check_call(name: str, given: list[Any], keyed: bool) -> None:
    if any(type(one) in (set, frozenset) for one in given) and name in words("sorted min max sum"):
        kinds = {type(one) for value in given if type(value) in (set, frozenset) for one in value}
        if keyed or not (kinds <= {int} or (kinds <= {str} and name != "sum")):
            raise Unsure
    elif any(map(unordered, given)) and (name not in _ORDER_DOES_NOT_MATTER or name in words("sorted min max sum")):
        raise Unsure
    if name in ITERATE and any(one is UNKNOWN for value in given if type(value) in (list, tuple) for one in value):
        raise Unsure
    if name in ("pow", "round") and not all(
        isinstance(one, int | float) and abs(one) < 100 for one in given[name == "round" :]
    ):
        raise Unsure
    if name != "bool":
        _check_range(*given)
    if not SAME_VERSION and (name == "sum" or not str(given).isascii()):
        raise Unsure


def _instance(value: Any) -> Any:
    return getattr(builtins, value.name) if isinstance(value, Own) and not value.raised else known(value)


def _kinds(value: Any) -> Any:
    """What `isinstance` is asked about: a type of Python's own, or several."""
    if type(value) is tuple:
        return tuple(map(_kinds, value))
    return getattr(builtins, value.name) if isinstance(value, Own) and not value.raised else known(value)


def caught(raised: Any, kinds: Any) -> bool:
    """Whether a handler of such kinds takes an exception."""
    several = [getattr(builtins, one.name, None) if isinstance(one, Own) else None for one in (kinds if type(kinds) is tuple else [kinds])]
    found = getattr(builtins, raised.name, None) if isinstance(raised, Own) else None
    if not all(isinstance(one, type) for one in (found, *several)):
        raise Unsure
    return issubclass(found, tuple(several))  # type: ignore[arg-type]


def has_attribute(value: Any, name: str) -> bool | None:
    """Whether a value has such an attribute; None: not known."""
    if isinstance(value, Own) and not value.raised:
        return hasattr(math if value.name == "math" else getattr(builtins, value.name, None), name) or None
    return hasattr(type(value), name) if value is not UNKNOWN and type(value).__module__ == "builtins" else None


def method(receiver: Any, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Any]:
    """What a method gives, and its object after it."""
    kind = type(known(receiver))
    mutates = name in MUTATORS.get(kind, frozenset())
    if not mutates and name not in READ_ONLY.get(kind, frozenset()):
        raise Unsure
    if kind is dict and name in ("keys", "values", "items"):
        return Iter(tuple(getattr(receiver, name)()), (receiver,), view=name), receiver
    plain = [known(listed(one) if isinstance(one, Iter) and name in _READ_WHOLE else one) for one in given]
    if any(map(unordered, plain)) and kind in (str, list, dict) and name not in ("append", "get"):
        raise Unsure
    if any(one is UNKNOWN for value in plain if type(value) is list for one in value):
        raise Unsure
    _check_range(*plain)
    if kind is set and name == "pop" and unordered(receiver):
        raise Unsure
    if kind is str:
        _check_text(receiver, name, plain)
    after = receiver.copy() if mutates else receiver
    options = {word: known(one) for word, one in named.items()}
    result = attempt(getattr(kind, name), after, *plain, **options)
    if mutates and len(after) > LARGEST:
        raise Unsure
    return result, after


def _check_text(one: str, name: str, given: list[Any]) -> None:
    if not SAME_VERSION and not (one.isascii() and str(given).isascii()):
        raise Unsure
    if any(isinstance(number, int) and number > LARGEST for number in given):
        raise Unsure
    if name == "format":
        for _, field, spec, _ in attempt(lambda: list(string.Formatter().parse(one))):
            if field is not None and (re.search(r"[.\[]", field) or "{" in (spec or "") or _WIDE.search(spec or "")):
                raise Unsure
    texts = [text for text in given if isinstance(text, str)]
    size = len(one) + sum(map(len, texts))
    if name == "join" and given and hasattr(given[0], "__len__"):
        size = (len(given[0]) + 1) * (len(one) + 1) // 100
    elif name == "translate":
        size = (len(one) + 1) * (len(str(given)) + 1) // 100
    elif name in ("replace", "expandtabs"):
        size = (len(one) + 1) * max(max(map(len, texts), default=0) + 1, *(n for n in given if type(n) is int), 1) // 100
    if size > LARGEST:
        raise Unsure
