"""Families of functions that can be applied to each other's results: strings, seven further domains, and sequences of four types.

To add a function, write it in `string_functions` or `zoo_functions` and register its extra arguments here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from remedy.data_gen.tasks import sequence_functions, string_functions, zoo_functions
from remedy.registry import Registry
from remedy.rng import Draws

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Texts(Protocol):
    """Alphabet and lengths of random strings."""

    @property
    def alphabet(self) -> str:
        """Their letters."""

    @property
    def input_length(self) -> tuple[int, int]:
        """The shortest and the longest input."""


Draw = Callable[[Draws, Texts], Any]


class Family(NamedTuple):
    """A domain: how to draw an input, and its functions, each with the draws of its extra arguments."""

    draw_input: Draw
    functions: dict[str, tuple[Draw, ...]]
    module: ModuleType
    """Where the functions are written."""
    has_strings: bool = False
    """Whether values are strings, or hold some."""
    draws_texts: bool = False
    """Whether inputs are random texts of the task's `alphabet` and `input_length`."""
    typed: Callable[[Any, Texts], Any] = lambda drawn, texts: drawn
    """Makes the values of a program of what is drawn."""


FAMILIES: Registry[Family] = Registry("family")
"""Families by name. To add one, write its functions in a module and register it here."""


@lru_cache
def source(family: str, name: str) -> str:
    """The Python source of a function of a family."""
    return inspect.getsource(getattr(FAMILIES[family].module, name))


def _integer(low: int, high: int) -> Draw:
    return lambda draws, texts: draws.integer(low, high)


def _word(low: int, high: int) -> Draw:
    return lambda draws, texts: draws.text(texts.alphabet, low, high)


def _text(draws: Draws, texts: Texts) -> str:
    return draws.text(texts.alphabet, *texts.input_length)


def _letter(alphabet: str) -> Draw:
    return lambda draws, texts: draws.choice(alphabet)


def _boolean(draws: Draws, texts: Texts) -> bool:
    return draws.choice((False, True))


def _small_list(draws: Draws, texts: Texts) -> list[int]:
    return [draws.integer(0, 9) for _ in range(draws.integer(2, 6))]


def _small_set(draws: Draws, texts: Texts) -> set[int]:
    return set(_small_list(draws, texts))


def _small_dict(draws: Draws, texts: Texts) -> dict[str, int]:
    return {draws.choice(LETTERS): draws.integer(0, 9) for _ in range(draws.integer(2, 5))}


_LETTER = _letter(LETTERS)
_EITHER_CASE = _letter(LETTERS + LETTERS.upper())


def _family(
    draw_input: Draw,
    module: ModuleType,
    prefix: str,
    extras: dict[str, tuple[Draw, ...]],
    has_strings: bool = False,
    draws_texts: bool = False,
    typed: Callable[[Any, Texts], Any] = lambda drawn, texts: drawn,
) -> Family:
    """All functions of a module whose names have a prefix, in the order in which they are written there. `extras`: what those with
    further arguments are given for them."""
    names = [name for name, one in vars(module).items() if inspect.isfunction(one) and name.startswith(prefix)]
    assert extras.keys() <= set(names)
    functions = {name: extras.get(name, ()) for name in names}
    return Family(draw_input, functions, module, has_strings, draws_texts, typed)


FAMILIES["strings"] = _family(
    _text,
    string_functions,
    "",
    {
        "repeat_str": (_integer(2, 3),),
        "add_prefix": (_word(1, 3),),
        "add_suffix": (_word(1, 3),),
        "interlace_str": (_word(2, 4),),
        "rotate_str": (_integer(1, 4),),
        "shift_chars": (_integer(1, 5),),
        "insert_separator": (_letter("-_|.,"),),
        "loop_concat": (_integer(2, 3),),
        "while_rotate": (_integer(1, 4),),
        "recursive_interlace": (_word(2, 4),),
        "backchain_add_digit": (_integer(1, 3),),
        "backchain_palindrome": (_integer(1, 2),),
    },
    has_strings=True,
    draws_texts=True,
)
FAMILIES["booleans"] = _family(
    _boolean,
    zoo_functions,
    "bool_",
    {
        **dict.fromkeys(("bool_and", "bool_or", "bool_xor", "bool_implies", "bool_nand", "bool_nor"), (_boolean,)),
        "bool_majority": (_boolean, _boolean),
    },
)
FAMILIES["bitwise"] = _family(
    _integer(0, 255),
    zoo_functions,
    "bits_",
    {
        **dict.fromkeys(("bits_and", "bits_or", "bits_xor"), (_integer(0, 255),)),
        **dict.fromkeys(("bits_shift_left", "bits_shift_right"), (_integer(1, 3),)),
    },
)
FAMILIES["math"] = _family(
    _integer(-99, 99),
    zoo_functions,
    "math_",
    {**dict.fromkeys(("math_add", "math_subtract"), (_integer(1, 20),)), "math_clamp": (_integer(10, 60),)},
)
FAMILIES["characters"] = _family(
    _EITHER_CASE, zoo_functions, "char_", {"char_maximum": (_EITHER_CASE,)}, has_strings=True
)
FAMILIES["lists"] = _family(_small_list, zoo_functions, "list_", {"list_append": (_integer(0, 9),)})
FAMILIES["sets"] = _family(
    _small_set,
    zoo_functions,
    "set_",
    {
        **dict.fromkeys(("set_add", "set_discard", "set_toggle"), (_integer(0, 9),)),
        **dict.fromkeys(("set_union", "set_intersection", "set_difference"), (_small_set,)),
    },
)
FAMILIES["dicts"] = _family(
    _small_dict,
    zoo_functions,
    "dict_",
    {
        "dict_put": (_LETTER, _integer(0, 9)),
        "dict_remove": (_LETTER,),
        "dict_keep_large": (_integer(0, 9),),
        "dict_merge": (_LETTER,),
    },
    has_strings=True,
)

_SEQUENCES: dict[str, Callable[[str, str], Any]] = {
    "str": lambda text, alphabet: text,
    "list_str": lambda text, alphabet: list(text),
    "list_int": lambda text, alphabet: [alphabet.index(letter) for letter in text],
    "tuple": lambda text, alphabet: tuple(text),
}
"""What is made of a text and its alphabet in each family of sequences. The same programs are drawn for all of them."""


def _typed(convert: Callable[[str, str], Any]) -> Callable[[Any, Texts], Any]:
    return lambda drawn, texts: convert(drawn, texts.alphabet) if isinstance(drawn, str) else drawn


for _name, _convert in _SEQUENCES.items():
    FAMILIES[f"sequences_{_name}"] = _family(
        _text,
        sequence_functions,
        "",
        {
            "rotate": (_integer(1, 4),),
            "repeat": (_integer(2, 3),),
            "interlace": (_word(2, 4),),
            "filter_out": (_word(1, 1),),
        },
        has_strings=_name != "list_int",
        draws_texts=True,
        typed=_typed(_convert),
    )
