"""String encodings: reversible ways to write strings, to align characters with tokens.

Model output is compared with the encoded truth, never decoded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Annotated, NamedTuple

from remedy.data_gen.execution.program import Value
from remedy.registry import Registry, one_of

Encoding = Callable[[str], str | list[str]]
"""Gives what the trace shows instead of a string: another value for every string, so that nothing is lost."""

ENCODINGS: Registry[Encoding] = Registry("string encoding")
ENCODINGS["plain"] = str
ENCODINGS["spaced"] = " ".join
ENCODINGS["list"] = list
ENCODINGS["indexed"] = lambda s: " ".join(f"{i}:{c}" for i, c in enumerate(s))

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
    """Part of a value's text; `string`: it belongs to a string."""

    text: str
    string: bool


@lru_cache(maxsize=100_000)
def pieces(value: Value, encoding: str) -> tuple[Piece, ...]:
    """Encode a value's text and cut it at its strings, JSON-escaped without quotes."""
    text = value.text
    if value.is_string:
        return (Piece(escape(_encoded(text, encoding)), True),)
    if (
        value.type not in _CONTAINERS
        or not ("'" in text or '"' in text)
        or not _PLAIN.fullmatch(_LITERAL.sub("", text))
    ):
        return (Piece(escape(text), False),)
    cut = _cut(text, _LITERAL.finditer(text))
    return tuple(Piece(escape(_encoded(part, encoding) if string else part), string) for part, string in cut)


@lru_cache(maxsize=100_000)
def source_pieces(source: str) -> tuple[Piece, ...]:
    """Cut source text at its one-line string literals."""
    return tuple(_cut(source, (match for match in _SOURCE.finditer(source) if match.lastgroup == "literal")))


@lru_cache(maxsize=100_000)
def encoded_source(source: str, encoding: str) -> str:
    """Encode the one-line string literals of source text that have no prefix."""
    written = ""
    for piece in source_pieces(source):
        prefixed = written[-1:].isalnum() or written[-1:] == "_"
        written += _encoded(piece.text, encoding) if piece.string and not prefixed else piece.text
    return written


def _cut(text: str, literals: Iterable[re.Match[str]]) -> Iterator[Piece]:
    end = 0
    for match in literals:
        if match.start() > end:
            yield Piece(text[end : match.start()], False)
        yield Piece(match.group(), True)
        end = match.end()
    if end < len(text):
        yield Piece(text[end:], False)


def escape(text: str) -> str:
    """Escape a string as JSON does, without the quotes."""
    return encode_basestring_ascii(text)[1:-1]


def _encoded(literal: str, encoding: str) -> str:
    if encoding == "plain":
        return literal
    try:
        text = ast.literal_eval(literal)
    except (ValueError, SyntaxError):  # a class of the program is called `str` or `list`: its repr is no literal
        return literal
    return repr(ENCODINGS[encoding](text)) if isinstance(text, str) else literal
