"""String encodings: reversible ways to write a string value in a trace, so that characters can line up with tokens.

To add an encoding, write an `encode`/`decode` pair and register it in ENCODINGS: `encode` gives the Python value whose repr is
written in place of the string's, `decode` gives the string back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Annotated, NamedTuple

from remedy.data_gen.execution.program import Value
from remedy.data_gen.registry import Registry, one_of


class Encoding(NamedTuple):
    """`encode(s)` is what the trace shows instead of `s`; `decode(encode(s)) == s` for every Unicode string. A model may write
    something else: `decode` raises ValueError on what it cannot decode."""

    encode: Callable[[str], str | list[str]]
    decode: Callable[[str | list[str]], str]


def _decode_indexed(text: str | list[str]) -> str:
    assert isinstance(text, str)
    characters: list[str] = []
    position = 0
    while position < len(text):
        position += len(f"{len(characters)}:")
        characters.append(text[position : position + 1])
        position += 2
    return "".join(characters)


ENCODINGS: Registry[Encoding] = Registry("string encoding")
ENCODINGS["plain"] = Encoding(lambda s: s, lambda t: "".join(t))
ENCODINGS["spaced"] = Encoding(lambda s: " ".join(s), lambda t: "".join(t[::2]))
ENCODINGS["list"] = Encoding(lambda s: list(s), lambda t: "".join(t))
ENCODINGS["indexed"] = Encoding(lambda s: " ".join(f"{i}:{c}" for i, c in enumerate(s)), _decode_indexed)

EncodingName = Annotated[str, one_of(ENCODINGS)]

# A string literal inside the repr of a built-in container.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_SOURCE = re.compile(
    r"""(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|\#[^\n]*)"""
    r"""|(?P<literal>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
)
# What else the repr of containers of built-in values is made of; anything else may hold quotes that are no literal's.
_PLAIN = re.compile(r"(?:[\d\s.,:(){}\[\]+\-ej]|True|False|None|nan|inf|set|frozenset)*")
_CONTAINERS = frozenset({"list", "tuple", "dict", "set", "frozenset"})


class Piece(NamedTuple):
    """A run of a value's text; `string` is true for the text of a string."""

    text: str
    string: bool


@lru_cache(maxsize=100_000)
def pieces(value: Value, encoding: str) -> tuple[Piece, ...]:
    """The value's text under the encoding, cut at its strings: those it is, or holds inside built-in containers.

    The text is what goes between the quotes of the trace's JSON, that is, already JSON-escaped.
    """
    text = value.text
    if value.is_string:
        return (Piece(escape(_encoded(text, encoding)), True),)
    if (
        value.type not in _CONTAINERS
        or not ("'" in text or '"' in text)
        or not _PLAIN.fullmatch(_LITERAL.sub("", text))
    ):
        return (Piece(escape(text), False),)
    found, end = [], 0
    for match in _LITERAL.finditer(text):
        if match.start() > end:
            found.append(Piece(escape(text[end : match.start()]), False))
        found.append(Piece(escape(_encoded(match.group(), encoding)), True))
        end = match.end()
    return (*found, Piece(escape(text[end:]), False))


@lru_cache(maxsize=100_000)
def source_pieces(source: str) -> tuple[Piece, ...]:
    """Source text cut at its one-line string literals, which are string values too; docstrings and comments are not."""
    found, end = [], 0
    for match in _SOURCE.finditer(source):
        if match.lastgroup != "literal":
            continue
        if match.start() > end:
            found.append(Piece(source[end : match.start()], False))
        found.append(Piece(match.group(), True))
        end = match.end()
    if end < len(source):
        found.append(Piece(source[end:], False))
    return tuple(found)


def escape(text: str) -> str:
    """JSON's escaping of a string, without the quotes."""
    return encode_basestring_ascii(text)[1:-1]


def decode_value(text: str, encoding: str) -> str:
    """The repr of the string that a string value's (JSON-unescaped) trace text stands for.

    Model output is data: anything that is not a literal of the encoding's form comes back unchanged.
    """
    try:
        written = ast.literal_eval(text)
        if isinstance(written, str) or (isinstance(written, list) and all(isinstance(c, str) for c in written)):
            return repr(ENCODINGS[encoding].decode(written))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    return text


def _encoded(literal: str, encoding: str) -> str:
    if encoding == "plain":
        return literal
    return repr(ENCODINGS[encoding].encode(ast.literal_eval(literal)))
