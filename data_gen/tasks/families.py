"""Families of functions that apply to each other's results."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from remedy.data_gen.tasks import functions
from remedy.registry import Registry
from remedy.rng import Draws

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Texts(NamedTuple):
    """Alphabet and lengths of random texts; `text`: the functions' input."""

    alphabet: str
    input_length: tuple[int, int]
    text: str = ""


Draw = Callable[[Draws, Texts], Any]


class Family(NamedTuple):
    """Functions of one type, with draws of their input and extra arguments."""

    draw_input: Draw
    functions: Mapping[str, tuple[Draw, ...]]
    sources: Mapping[str, str]
    """The Python source of each function."""
    inline: bool = False
    """Whether functions, of one expression each, are written as these expressions in place of calls."""
    has_strings: bool = False
    """Whether values are strings, or hold some."""
    draws_texts: bool = False
    """Whether inputs are random texts of the task's `alphabet` and `input_length`."""
    typed: Callable[[Any, Texts], Any] = lambda drawn, texts: drawn
    """Makes the values of a program of what is drawn."""


FAMILIES: Registry[Family] = Registry("family")
"""Families by name. To add one, register it here with the source of its functions."""


def _integer(low: int, high: int) -> Draw:
    return lambda draws, texts: draws.integer(low, high)


def _word(low: int, high: int) -> Draw:
    return lambda draws, texts: draws.text(texts.alphabet, low, high)


def _one_of(values: str | tuple[bool, ...]) -> Draw:
    return lambda draws, texts: draws.choice(values)


def _text(draws: Draws, texts: Texts) -> str:
    return draws.text(texts.alphabet, *texts.input_length)


def _input_letter(draws: Draws, texts: Texts) -> str:
    return draws.choice(texts.text or texts.alphabet)


def _alphabet_letter(draws: Draws, texts: Texts) -> str:
    return draws.choice(texts.alphabet)


def _small_list(draws: Draws, texts: Texts) -> list[int]:
    return [draws.integer(0, 9) for _ in range(draws.integer(2, 6))]


def _small_set(draws: Draws, texts: Texts) -> set[int]:
    return set(_small_list(draws, texts))


def _small_dict(draws: Draws, texts: Texts) -> dict[str, int]:
    return {draws.choice(LETTERS): draws.integer(0, 9) for _ in range(draws.integer(2, 5))}


DRAWS: dict[str, Draw] = {
    "alphabet letter": _alphabet_letter,
    "boolean": _one_of((False, True)),
    "either_case": _one_of(LETTERS + LETTERS.upper()),
    "input": _text,
    "input letter": _input_letter,
    "letter": _one_of(LETTERS),
    "separator": _one_of("-_|.,"),
    "small_set": _small_set,
}
"""Draws of arguments by the names that heads of functions call them by."""
_HEAD = re.compile(r"^(\w+)\((.*?)\):(?: (.+))?$", re.MULTILINE)
_NUMBERS = re.compile(r"(word )?(\d+)\.\.(\d+)")


def _draw(written: str) -> Draw:
    if numbers := _NUMBERS.fullmatch(written):
        return (_word if numbers[1] else _integer)(int(numbers[2]), int(numbers[3]))
    return DRAWS[written]


def _read(text: str) -> Iterator[tuple[str, tuple[Draw, ...], str]]:
    heads = [*_HEAD.finditer(text)]
    for head, end in zip(heads, [*(head.start() for head in heads[1:]), len(text)]):
        (first, _), *others = (parameter.partition(": ")[::2] for parameter in head[2].split(", "))
        parameters = ", ".join([first, *(name for name, _ in others)])
        body = f"\n    return {head[3]}\n" if head[3] else text[head.end() : end]
        yield head[1], tuple(_draw(written) for _, written in others), f"def {head[1]}({parameters}):{body}"


def _family(draw_input: Draw, text: str, **more: Any) -> Family:
    parsed = [*_read(text)]
    return Family(
        draw_input, {name: draws for name, draws, _ in parsed}, {name: code for name, _, code in parsed}, **more
    )


class _Arguments(ast.NodeTransformer):
    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.given.get(node.id, node)


def expression(source: str, arguments: Sequence[str]) -> str:
    """Write the call of a one-expression function as that expression."""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    (returned,) = function.body
    parameters = [parameter.arg for parameter in function.args.args]
    given = {name: ast.parse(text, mode="eval").body for name, text in zip(parameters, arguments, strict=True)}
    return ast.unparse(_Arguments(given).visit(returned).value)


FAMILIES["strings"] = _family(_text, functions.STRINGS, has_strings=True, draws_texts=True)
FAMILIES["string_operations"] = _family(
    _text, functions.STRING_OPERATIONS, has_strings=True, draws_texts=True, inline=True
)
FAMILIES["booleans"] = _family(DRAWS["boolean"], functions.BOOLEANS)
FAMILIES["bitwise"] = _family(_integer(0, 255), functions.BITWISE)
FAMILIES["math"] = _family(_integer(-99, 99), functions.MATH)
FAMILIES["characters"] = _family(DRAWS["either_case"], functions.CHARACTERS, has_strings=True)
FAMILIES["lists"] = _family(_small_list, functions.LISTS)
FAMILIES["sets"] = _family(_small_set, functions.SETS)
FAMILIES["dicts"] = _family(_small_dict, functions.DICTS, has_strings=True)

_SEQUENCES: dict[str, Callable[[str, str], Any]] = {
    "str": lambda text, alphabet: text,
    "list_str": lambda text, alphabet: list(text),
    "list_int": lambda text, alphabet: [alphabet.index(letter) for letter in text],
    "tuple": lambda text, alphabet: tuple(text),
}
"""Each sequence family's value of a text over an alphabet. All draw the same programs."""


def _typed(convert: Callable[[str, str], Any]) -> Callable[[Any, Texts], Any]:
    return lambda drawn, texts: convert(drawn, texts.alphabet) if isinstance(drawn, str) else drawn


for _name, _convert in _SEQUENCES.items():
    FAMILIES[f"sequences_{_name}"] = _family(
        _text, functions.SEQUENCES, has_strings=_name != "list_int", draws_texts=True, typed=_typed(_convert)
    )
