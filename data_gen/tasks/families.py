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

FAMILIES["strings"] = Family(
    lambda draws, texts: draws.text(texts.alphabet, *texts.input_length),
    {
        "deterministic_shuffle": (),
        "repeat_str": (_integer(2, 3),),
        "remove_vowels": (),
        "sort_chars": (),
        "reverse_words": (),
        "add_prefix": (_word(1, 3),),
        "add_suffix": (_word(1, 3),),
        "interlace_str": (_word(2, 4),),
        "rotate_str": (_integer(1, 4),),
        "mirror_str": (),
        "alternate_case": (),
        "shift_chars": (_integer(1, 5),),
        "vowel_to_number": (),
        "insert_separator": (_letter("-_|.,"),),
        "duplicate_every_char": (),
        "fancy_brackets": (),
        "compress_repeats": (),
        "recursive_reverse": (),
        "loop_concat": (_integer(2, 3),),
        "while_rotate": (_integer(1, 4),),
        "recursive_interlace": (_word(2, 4),),
        "loop_filter_nonalpha": (),
        "verify_even_length": (),
        "backchain_add_digit": (_integer(1, 3),),
        "backchain_palindrome": (_integer(1, 2),),
    },
    string_functions,
    has_strings=True,
    draws_texts=True,
)
FAMILIES["booleans"] = Family(
    _boolean,
    {
        "bool_not": (),
        "bool_and": (_boolean,),
        "bool_or": (_boolean,),
        "bool_xor": (_boolean,),
        "bool_implies": (_boolean,),
        "bool_nand": (_boolean,),
        "bool_nor": (_boolean,),
        "bool_majority": (_boolean, _boolean),
    },
    zoo_functions,
)
FAMILIES["bitwise"] = Family(
    lambda draws, texts: draws.integer(0, 255),
    {
        "bits_and": (_integer(0, 255),),
        "bits_or": (_integer(0, 255),),
        "bits_xor": (_integer(0, 255),),
        "bits_invert": (),
        "bits_shift_left": (_integer(1, 3),),
        "bits_shift_right": (_integer(1, 3),),
        "bits_rotate": (),
        "bits_reverse": (),
        "bits_clear_lowest": (),
    },
    zoo_functions,
)
FAMILIES["math"] = Family(
    lambda draws, texts: draws.integer(-99, 99),
    {
        "math_add": (_integer(1, 20),),
        "math_subtract": (_integer(1, 20),),
        "math_double": (),
        "math_negate": (),
        "math_absolute": (),
        "math_square_mod": (),
        "math_halve": (),
        "math_digit_sum": (),
        "math_clamp": (_integer(10, 60),),
    },
    zoo_functions,
)
FAMILIES["characters"] = Family(
    lambda draws, texts: _EITHER_CASE(draws, texts),
    {
        "char_upper": (),
        "char_lower": (),
        "char_swap_case": (),
        "char_next": (),
        "char_previous": (),
        "char_mirror": (),
        "char_rot13": (),
        "char_maximum": (_EITHER_CASE,),
    },
    zoo_functions,
    has_strings=True,
)
FAMILIES["lists"] = Family(
    _small_list,
    {
        "list_reverse": (),
        "list_sort": (),
        "list_append": (_integer(0, 9),),
        "list_rotate": (),
        "list_increment": (),
        "list_drop_first": (),
        "list_running_sum": (),
        "list_unique": (),
        "list_swap_ends": (),
    },
    zoo_functions,
)
FAMILIES["sets"] = Family(
    _small_set,
    {
        "set_add": (_integer(0, 9),),
        "set_discard": (_integer(0, 9),),
        "set_toggle": (_integer(0, 9),),
        "set_keep_even": (),
        "set_union": (_small_set,),
        "set_intersection": (_small_set,),
        "set_difference": (_small_set,),
        "set_shift": (),
    },
    zoo_functions,
)
FAMILIES["dicts"] = Family(
    _small_dict,
    {
        "dict_put": (_LETTER, _integer(0, 9)),
        "dict_remove": (_LETTER,),
        "dict_increment": (),
        "dict_sort": (),
        "dict_reverse": (),
        "dict_keep_large": (_integer(0, 9),),
        "dict_double": (),
        "dict_merge": (_LETTER,),
        "dict_rotate_values": (),
    },
    zoo_functions,
    has_strings=True,
)


def _sequences(convert: Callable[[str, str], Any], has_strings: bool = True) -> Family:
    """Sequences of one type, which `convert` makes of a text and its alphabet. The same programs are drawn for every type."""
    return Family(
        lambda draws, texts: draws.text(texts.alphabet, *texts.input_length),
        {
            "mirror": (),
            "reverse": (),
            "rotate": (_integer(1, 4),),
            "repeat": (_integer(2, 3),),
            "interlace": (_word(2, 4),),
            "filter_out": (_word(1, 1),),
        },
        sequence_functions,
        has_strings=has_strings,
        draws_texts=True,
        typed=lambda drawn, texts: convert(drawn, texts.alphabet) if isinstance(drawn, str) else drawn,
    )


FAMILIES["sequences_str"] = _sequences(lambda text, alphabet: text)
FAMILIES["sequences_list_str"] = _sequences(lambda text, alphabet: list(text))
FAMILIES["sequences_list_int"] = _sequences(lambda text, alphabet: [alphabet.index(c) for c in text], has_strings=False)
FAMILIES["sequences_tuple"] = _sequences(lambda text, alphabet: tuple(text))
