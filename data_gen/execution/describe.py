"""Text of a runtime value and the name of its type.

All names are bound at import, before a program can replace `repr`, `len` or `type`.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from typing import Any

from remedy.data_gen.execution.program import Value
from remedy.data_gen.execution.tables import HEAP_TYPE, array_writer, table_writer

_ADDRESS = (
    r" (?:at 0x[0-9a-fA-F]+"
    r"|(?<= object )@ 0x[0-9a-f]+"  # <sha256 _hashlib.HASH object @ 0x...>
    r"|(?<= object )owner=[1-9]\d*(?= count=)"  # <locked _thread.RLock object owner=... count=1 at 0x...>
    r"|(?:(?<=started )|(?<=stopped )|(?<=daemon ))\d{9,}(?=\)>)"  # <_MainThread(MainThread, started ...)>
    r"|(?<=' )\(0x[0-9a-f]+\)(?=>)"  # <cparam 'P' (0x...)>
    r"|(?<=, )handle [0-9a-f]+(?=>| at )"  # <CDLL 'None', handle ... at 0x...>
    r"|id='\d{9,}'(?=>))"  # <Mock id='...'>
)
"""Addresses as CPython and its library write them; numbers of threads are addresses too."""
_SIGNS = ("0x", "owner=", "started ", "stopped ", "daemon ", " id='")
"""Every text with an address holds one of these, which are faster to search for."""
type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
"""Reads a type's real name, which its metaclass can hide."""


MOST_DIGITS = 100_000
"""Digits of an int that is written, at most: 0.2 s."""


def _describer(representation: Callable[[Any], str]) -> Callable[[Any], Value]:
    exact_type, string, copied = type, str, str.__str__
    name_of = type_name
    new_value = tuple.__new__  # half the cost of calling the NamedTuple, on the tracer's hottest line
    signs = _SIGNS
    no_addresses = re.compile(_ADDRESS).sub
    modules = re.compile(r"(<module '[^']*')(?: from (?:'[^']*'|\"[^\"]*\")| \((?:built-in|frozen)\))(?=>)").sub

    def without_path(match: re.Match[str]) -> str:
        return match[1]

    def describe(value: Any) -> Value:
        """Write a value's repr without addresses, owners of locks and paths of modules.

        Raises whatever the `repr` raises.
        """
        text = representation(value)
        if exact_type(text) is not string:
            text = copied(text)  # of a subclass, whose own methods may say anything
        for sign in signs:
            if sign in text:
                text = no_addresses("", text)
                break
        if "<module '" in text:
            text = modules(without_path, text)
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return new_value(Value, (text, name_of(exact_type(value))))

    return describe


def _long_describer() -> Callable[[Any], Value]:
    limit, set_limit = (getattr(sys, f"{verb}_int_max_str_digits", None) for verb in ("get", "set"))

    def describe_long(value: Any) -> Value:
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
"""Describes a value as if its class had no `__repr__`."""


MOST_ATTRIBUTES, DEEPEST = 16, 4
"""Attributes of an object and levels of nesting that are written, at most."""
_INSIDE = (" object>", "array(", "\n", "Series(")
"""Every container whose items need another text holds one of these in its repr."""


def attributes_describer(code: str = "") -> Callable[[Any], Value]:
    """Make a `describe` that writes objects without a `__repr__` as `<Point x=1 y=2>`.

    Slots come first, then attributes as they were set. An object inside itself or below DEEPEST levels is `<Point ...>`;
    `...` also stands for attributes after MOST_ATTRIBUTES. `code` may name pandas, for `tables`. No property is read: of
    the program's code only `__repr__`s run, and what it put in place of pandas' functions.
    """
    exact_type, plain, identity, length, name_of, string = type, describe, id, len, type_name, str
    new_value, pairs, copied, in_order = tuple.__new__, dict.items, list, sorted
    flags, heap, of_class = type.__dict__["__flags__"].__get__, HEAP_TYPE, types.MappingProxyType.items
    bases, members = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    default, slot, instance_dict = object.__repr__, types.MemberDescriptorType, types.GetSetDescriptorType
    most, deepest = MOST_ATTRIBUTES, DEEPEST
    brackets = (  # nothing that can be changed, and nothing that asks a type for its hash
        (list, ("[", "]")),
        (tuple, ("(", ")")),
        (set, ("{", "}")),
        (frozenset, ("frozenset({", "})")),
        (dict, ("{", "}")),
    )
    mapping, plain_set, frozen_set, plain_tuple = dict, set, frozenset, tuple
    path: list[int] = []
    signs = _INSIDE

    def attributes(value: Any, class_members: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        values = []
        for name, member in class_members:
            if exact_type(member) is slot:
                try:
                    values.append((name, member.__get__(value)))
                except AttributeError:  # it is not set
                    continue
        for name, member in class_members:
            if name == "__dict__" and exact_type(member) is instance_dict:
                values += [
                    (key, attribute)
                    for key, attribute in copied(pairs(member.__get__(value)))
                    if exact_type(key) is string
                ]
        return values

    def inside(value: Any, kind: type, class_members: list[tuple[str, Any]]) -> str:
        if kind is mapping:
            return ", ".join([f"{text(key)}: {text(item)}" for key, item in copied(pairs(value))])
        if not class_members:
            parts = [text(item) for item in copied(value)]
            # Objects lie in sets by address, so that their order differs between runs.
            parts = in_order(parts) if kind is plain_set or kind is frozen_set else parts
            return ", ".join(parts) + ("," if kind is plain_tuple and length(parts) == 1 else "")
        values = attributes(value, class_members)
        return "".join([f" {name}={text(item)}" for name, item in values[:most]] + [" ..."] * (length(values) > most))

    def text(value: Any) -> str:
        kind = exact_type(value)
        write = array if is_array(kind) else table if is_table(kind) else None
        shown = plain(value).text if write is None else ""
        for sign in signs:
            if sign in shown:
                break
        else:
            if write is None:
                return shown
        ends = [marks for container, marks in brackets if container is kind]
        class_members = []
        if not ends and write is None:
            if not flags(kind) & heap:
                return shown
            every = [pair for base in bases(kind)[::-1] for pair in copied(of_class(members(base)))]
            class_members = [(name, part) for name, part in every if exact_type(name) is string]
            if mapping(class_members)["__repr__"] is not default:
                return shown
        before, after = ends[0] if ends else (f"<{name_of(kind)}", ">")
        if identity(value) in path or length(path) >= deepest:
            return f"{before}{'' if ends else ' '}...{after}"
        path.append(identity(value))
        try:
            return f"{before}{inside(value, kind, class_members)}{after}" if write is None else write(value)
        finally:
            path.pop()

    is_array, array = array_writer(text)
    is_table, table = table_writer(text, code)

    def describe_attributes(value: Any) -> Value:
        written = text(value)
        if not written.isascii():  # names of attributes, which may hold lone surrogates
            written = written.encode("utf-8", "backslashreplace").decode("utf-8")
        return new_value(Value, (written, name_of(exact_type(value))))

    return describe_attributes


def end_describer(describe: Callable[[object], Value]) -> Callable[[object], Value]:
    """Make a `describe` for the end of a run, which never raises."""
    instead = describe_object

    def described(value: object) -> Value:
        try:
            return describe(value)
        except BaseException:  # of the program's own, or an int has too many digits
            return instead(value)

    return described
