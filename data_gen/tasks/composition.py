"""Composition programs: func_A(func_B(... func_C(x))) to a chosen depth, nested or flattened into temporaries.

To add a function, write it in `string_functions` or `zoo_functions` and register its extra arguments here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from remedy.data_gen.execution.program import MARKER
from remedy.data_gen.rng import Draws
from remedy.data_gen.settings import Settings, suggest
from remedy.data_gen.tasks import string_functions, zoo_functions

LETTERS = "abcdefghijklmnopqrstuvwxyz"
Draw = Callable[[Draws, "CompositionTask"], Any]


def _integer(low: int, high: int) -> Draw:
    return lambda draws, config: draws.integer(low, high)


def _word(low: int, high: int) -> Draw:
    return lambda draws, config: draws.text(config.alphabet, low, high)


def _letter(alphabet: str) -> Draw:
    return lambda draws, config: draws.choice(alphabet)


def _boolean(draws: Draws, config: CompositionTask) -> bool:
    return draws.choice((False, True))


def _small_list(draws: Draws, config: CompositionTask) -> list[int]:
    return [draws.integer(0, 9) for _ in range(draws.integer(2, 6))]


def _small_set(draws: Draws, config: CompositionTask) -> set[int]:
    return set(_small_list(draws, config))


def _small_dict(draws: Draws, config: CompositionTask) -> dict[str, int]:
    return {draws.choice(LETTERS): draws.integer(0, 9) for _ in range(draws.integer(2, 5))}


class Family(NamedTuple):
    """A domain: how to draw an input, and its functions, each with the draws of its extra arguments."""

    draw_input: Callable[[Draws, CompositionTask], Any]
    functions: dict[str, tuple[Draw, ...]]
    module: Any


_LETTER = _letter(LETTERS)
_EITHER_CASE = _letter(LETTERS + LETTERS.upper())

FAMILIES: dict[str, Family] = {
    "strings": Family(
        lambda draws, config: draws.text(config.alphabet, *config.input_length),
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
    ),
    "booleans": Family(
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
    ),
    "bitwise": Family(
        lambda draws, config: draws.integer(0, 255),
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
    ),
    "math": Family(
        lambda draws, config: draws.integer(-99, 99),
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
    ),
    "characters": Family(
        lambda draws, config: _EITHER_CASE(draws, config),
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
    ),
    "lists": Family(
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
    ),
    "sets": Family(
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
    ),
    "dicts": Family(
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
    ),
}

FamilyName = Literal["strings", "booleans", "bitwise", "math", "characters", "lists", "sets", "dicts"]


class CompositionTask(Settings):
    """Functions of one family applied to each other's results."""

    kind: Literal["composition"] = "composition"
    family: FamilyName = "strings"
    """The type of the values that the functions take and give."""
    functions: tuple[str, ...] = ()
    """Which functions of the family may occur; all if none is named."""
    depth: int | tuple[int, int] = 1
    """Calls in each other, fixed or drawn from [low, high]."""
    flatten: bool = False
    """Whether each call stands on a line of its own, its result in a temporary variable."""
    input_length: tuple[int, int] = (3, 8)
    """Characters of a random input string."""
    alphabet: str = Field(default=LETTERS, min_length=1)
    """The letters of random strings."""
    held_out_functions: tuple[str, ...] = ()
    """Functions that the train split never has."""
    held_out_depths: tuple[int, ...] = ()
    """Depths that the train split never has."""

    @model_validator(mode="after")
    def _known(self) -> CompositionTask:
        low, high = self.depth_range()
        if not 1 <= low <= high <= 8:
            raise ValueError(f"depth must lie in 1..8, got {self.depth}")
        if not 0 <= self.input_length[0] <= self.input_length[1]:
            raise ValueError(f"input_length must be [low, high] with 0 <= low <= high, got {self.input_length}")
        valid = FAMILIES[self.family].functions
        for name in (*self.functions, *self.held_out_functions):
            if name not in valid:
                raise ValueError(f"unknown function {name!r} of family {self.family!r}; {suggest(name, valid)}")
        return self

    def depth_range(self) -> tuple[int, int]:
        return (self.depth, self.depth) if isinstance(self.depth, int) else self.depth

    def function_names(self) -> tuple[str, ...]:
        return self.functions or tuple(FAMILIES[self.family].functions)


class Composition(NamedTuple):
    """A drawn program; `functions` from the innermost call outwards. `identity` is the same nested or flattened."""

    code: str
    functions: tuple[str, ...]
    depth: int
    identity: str


def draw(config: CompositionTask, draws: Draws) -> Composition:
    """One composition. Its draws do not depend on `flatten`, so both forms of a program exist at the same index."""
    family = FAMILIES[config.family]
    depth = draws.integer(*config.depth_range())
    names = tuple(draws.choice(config.function_names()) for _ in range(depth))
    argument = repr(family.draw_input(draws, config))
    extras = ["".join(f", {extra(draws, config)!r}" for extra in family.functions[name]) for name in names]

    nested, steps = argument, []
    for number, (name, extra) in enumerate(zip(names, extras), start=1):
        steps.append(f"    t{number} = {name}({argument if number == 1 else f't{number - 1}'}{extra})\n")
        nested = f"{name}({nested}{extra})"
    body = "".join(steps) + f"    return t{depth}\n" if config.flatten else f"    return {nested}\n"
    sources = "\n\n".join(source(config.family, name) for name in sorted(set(names)))
    return Composition(f"{sources}\n\ndef main():  {MARKER}\n{body}", names, depth, nested)


@lru_cache
def source(family: str, name: str) -> str:
    """The Python source of a registered function."""
    return inspect.getsource(getattr(FAMILIES[family].module, name))
