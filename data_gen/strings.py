"""Reversible ways to write a string value in a trace, so that characters can line up with tokens.

To add an encoding, write an `encode`/`decode` pair and register it in ENCODINGS: `encode` gives the Python value that is
written in place of the string (its repr goes into the trace), `decode` gives the string back.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from remedy.data_gen.program import Value


class Encoding(NamedTuple):
    """`encode(s)` is what the trace shows instead of `s`; `decode(encode(s)) == s` for every Unicode string."""

    encode: Callable[[str], str | list[str]]
    decode: Callable[[str | list[str]], str]


def _decode_indexed(text: str | list[str]) -> str:
    assert isinstance(text, str)
    characters, position = [], 0
    while position < len(text):
        position += len(f"{len(characters)}:")
        characters.append(text[position : position + 1])
        position += 2
    return "".join(characters)


ENCODINGS: dict[str, Encoding] = {
    "plain": Encoding(lambda s: s, lambda t: "".join(t)),
    "spaced": Encoding(lambda s: " ".join(s), lambda t: "".join(t[::2])),
    "list": Encoding(lambda s: list(s), lambda t: "".join(t)),
    "indexed": Encoding(lambda s: " ".join(f"{i}:{c}" for i, c in enumerate(s)), _decode_indexed),
}

# A string literal inside the repr of a built-in container.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_CONTAINERS = frozenset({"list", "tuple", "dict", "set", "frozenset"})


class Piece(NamedTuple):
    """A run of a value's text; `string` is true for the text of a string."""

    text: str
    string: bool


def pieces(value: Value, encoding: str) -> Iterator[Piece]:
    """The value's text under the encoding, cut at its strings: those it is, or holds inside built-in containers.

    The text is what goes between the quotes of the trace's JSON, that is, already JSON-escaped.
    """
    if value.is_string:
        yield Piece(_escape(_encoded(value.text, encoding)), True)
        return
    text = value.text
    if value.type in _CONTAINERS and ("'" in text or '"' in text) and _is_literal(text):
        end = 0
        for match in _LITERAL.finditer(text):
            if match.start() > end:
                yield Piece(_escape(text[end : match.start()]), False)
            yield Piece(_escape(_encoded(match.group(), encoding)), True)
            end = match.end()
        yield Piece(_escape(text[end:]), False)
        return
    yield Piece(_escape(text), False)


def decode_value(text: str, encoding: str) -> str:
    """The repr of the string that a string value's (JSON-unescaped) trace text stands for.

    Model output is data: anything that is not a literal of the encoding's form comes back unchanged.
    """
    try:
        written = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    if isinstance(written, str) or (isinstance(written, list) and all(isinstance(c, str) for c in written)):
        return repr(ENCODINGS[encoding].decode(written))
    return text


def _encoded(literal: str, encoding: str) -> str:
    if encoding == "plain":
        return literal
    return repr(ENCODINGS[encoding].encode(ast.literal_eval(literal)))


def _escape(text: str) -> str:
    return json.dumps(text)[1:-1]


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True
