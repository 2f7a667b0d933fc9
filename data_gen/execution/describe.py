"""Text of a runtime value: its repr without what belongs to this machine, and the name of its type.

What is needed is bound when this module is loaded, before any program runs: one that replaces `repr`, `len` or `type`, or whose
types lie about their names, changes nothing here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from remedy.data_gen.execution.program import Value

_ADDRESS = (
    r" (?:at 0x[0-9a-fA-F]+"
    r"|(?<= object )@ 0x[0-9a-f]+"  # <sha256 _hashlib.HASH object @ 0x...>
    r"|(?<= object )owner=[1-9]\d*(?= count=)"  # <locked _thread.RLock object owner=... count=1 at 0x...>
    r"|(?:(?<=started )|(?<=stopped )|(?<=daemon ))\d{9,}(?=\)>)"  # <_MainThread(MainThread, started ...)>
    r"|(?<=' )\(0x[0-9a-f]+\)(?=>)"  # <cparam 'P' (0x...)>
    r"|(?<=, )handle [0-9a-f]+(?=>| at )"  # <CDLL 'None', handle ... at 0x...>
    r"|id='\d{9,}'(?=>))"  # <Mock id='...'>
)
"""How CPython and its library write addresses, and the numbers of threads, which are addresses too."""
_SIGNS = ("0x", "owner=", "started ", "stopped ", "daemon ", " id='")
"""One of them is in every text with an address: long texts are searched for these quickly."""
type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
"""A type's own name, which its metaclass can hide behind another."""


MOST_DIGITS = 100_000
"""Of an int whose digits are written: they take 0.2 s."""


def _describer(representation: Callable[[Any], str]) -> Callable[[Any], Value]:
    exact_type, string, copied = type, str, str.__str__
    name_of = type_name
    new_value = tuple.__new__  # half the cost of calling the NamedTuple, on the tracer's hottest line
    signs = _SIGNS
    no_addresses = re.compile(_ADDRESS).sub
    modules = re.compile(r"(<module '[^']*')(?: from (?:'[^']*'|\"[^\"]*\")| \((?:built-in|frozen)\))(?=>)").sub

    def named(match: re.Match[str]) -> str:
        return match[1]

    def describe(value: Any) -> Value:
        """Write a runtime value down. Raises whatever the value's `repr` raises.

        Addresses, the threads that hold locks, and where modules were found are removed; lone surrogates are written as escapes.
        """
        text = representation(value)
        if exact_type(text) is not string:
            text = copied(text)  # of a subclass, whose own methods may say anything
        for sign in signs:
            if sign in text:
                text = no_addresses("", text)
                break
        if "<module '" in text:
            text = modules(named, text)
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return new_value(Value, (text, name_of(exact_type(value))))

    return describe


def _long_describer() -> Callable[[Any], Value]:
    limit, set_limit = (getattr(sys, f"{verb}_int_max_str_digits", None) for verb in ("get", "set"))

    def describe_long(value: Any) -> Value:
        """As `describe`, where an int in it has up to MOST_DIGITS digits, more than Python writes."""
        if limit is None or set_limit is None:  # of Python 3.10.6 and before, which has no limit
            return describe(value)
        before = limit()
        set_limit(MOST_DIGITS)
        try:
            return describe(value)
        finally:
            set_limit(before)

    return describe_long


describe = _describer(repr)
describe_long = _long_describer()
describe_object = _describer(object.__repr__)
"""Writes a value down as one of a class without a `__repr__`."""
