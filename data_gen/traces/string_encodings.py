"""String encodings: reversible ways to write a string value in a trace, so that characters can line up with tokens.

To add an encoding, register a function in ENCODINGS: it gives the Python value whose repr is written in place of the string's. What a
model wrote is never decoded: it is compared with the true value as written, whose type is known.
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
    cut = _cut(text, _LITERAL.finditer(text))
    return tuple(Piece(escape(_encoded(part, encoding) if string else part), string) for part, string in cut)


@lru_cache(maxsize=100_000)
def source_pieces(source: str) -> tuple[Piece, ...]:
    """Source text cut at its one-line string literals, which are string values too; docstrings and comments are not."""
    return tuple(_cut(source, (found for found in _SOURCE.finditer(source) if found.lastgroup == "literal")))


@lru_cache(maxsize=100_000)
def encoded_source(source: str, encoding: str) -> str:
    """Source text with its one-line string literals under an encoding; those with a prefix (`f""`, `b""`) stay."""
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
    """JSON's escaping of a string, without the quotes."""
    return encode_basestring_ascii(text)[1:-1]


def _encoded(literal: str, encoding: str) -> str:
    if encoding == "plain":
        return literal
    try:
        text = ast.literal_eval(literal)
    except (ValueError, SyntaxError):  # a program's own class is called `str` or `list`, and its repr is no literal
        return literal
    return repr(ENCODINGS[encoding](text)) if isinstance(text, str) else literal
