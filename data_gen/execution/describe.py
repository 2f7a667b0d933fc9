"""How a runtime value is written down: its repr without what belongs to this machine, and the name of its type.

What is needed is bound when this module is loaded, before any program runs: one that replaces `repr`, `len` or `type`, or whose
types lie about their names, changes nothing here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from remedy.data_gen.execution.program import Value

type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
"""A type's own name, which its metaclass can hide behind another."""


MOST_DIGITS = 100_000
"""Of an int whose digits are written: they take 0.2 s."""


def _describer(representation: Callable[[Any], str]) -> Callable[[Any], Value]:
    exact_type, string, copied = type, str, str.__str__
    name_of = type_name
    new_value = tuple.__new__  # half the cost of calling the NamedTuple, on the tracer's hottest line
    no_addresses = re.compile(r" (?:at|@) 0x[0-9a-fA-F]+| owner=[1-9][0-9]*(?= count=)").sub
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
        if " 0x" in text:
            text = no_addresses("", text)
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
