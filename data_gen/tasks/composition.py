"""The composition task: func_A(func_B(... func_C(x))) to a chosen depth, nested or flattened into temporaries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from remedy import rng
from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.splits import ALL, SEEN, SPLITS, split_of, stream_of, text_hash
from remedy.data_gen.tasks.families import FAMILIES, LETTERS
from remedy.data_gen.tasks.small_spaces import outcomes
from remedy.data_gen.tasks.task import MAX_ATTEMPTS, TASKS, Drawn, Task, too_few_programs
from remedy.messages import shown, suggest
from remedy.registry import one_of
from remedy.settings import low_high

LONGEST = 10_000
LISTED = 10_000
"""Spaces of at most so many programs, counted as often as they can be drawn, are listed."""


@TASKS.register("composition")
class CompositionTask(Task):
    """Functions of one family applied to each other's results."""

    kind: Literal["composition"] = "composition"
    family: Annotated[str, one_of(FAMILIES)] = "strings"
    """The type of the functions' arguments and results."""
    functions: tuple[str, ...] = ()
    """Functions of the family to use; empty: all."""
    depth: int | tuple[int, int] = 1
    """Number of composed calls, fixed or drawn from [low, high]."""
    flatten: bool = False
    """Write each call on its own line, with its result in a temporary variable."""
    input_length: tuple[int, int] = (3, 8)
    """Characters of a random input string."""
    alphabet: str = Field(default=LETTERS, min_length=1)
    """The letters of random strings."""
    split_by: Literal["program", "functions"] = "program"
    """The unit that no two splits share: `program`, or the sequence of composed functions with any input. Single functions are in all
    splits, each of their programs in one."""
    held_out_functions: tuple[str, ...] = ()
    """Functions that the train split never has."""
    held_out_depths: tuple[int, ...] = ()
    """Depths that the train split never has."""
    held_out_pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of functions: programs of training and validation never apply the second to what the first returns."""

    @model_validator(mode="after")
    def _known(self) -> CompositionTask:
        low, high = self.depth_range()
        if not 1 <= low <= high <= 8:
            raise ValueError(f"depth must lie in 1..8, got {shown(self.depth)}")
        if not 0 <= self.input_length[0] <= self.input_length[1] <= LONGEST:
            raise ValueError(
                f"input_length must be [low, high] with 0 <= low <= high <= {LONGEST}, got {shown(self.input_length)}"
            )
        valid = FAMILIES[self.family].functions
        for name in (*self.functions, *self.held_out_functions, *itertools.chain(*self.held_out_pairs)):
            if name not in valid:
                raise ValueError(f"unknown function {shown(name)} of family {self.family!r}; {suggest(name, valid)}")
        return self

    def depth_range(self) -> tuple[int, int]:
        return low_high(self.depth)

    def function_names(self) -> tuple[str, ...]:
        return self.functions or tuple(FAMILIES[self.family].functions)

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.family})"

    def describe(self) -> str:
        return "Composition programs: functions of one domain applied to each other's results"

    def has_strings(self, session: bool) -> bool:
        return FAMILIES[self.family].has_strings

    def without_effect(self, session: bool) -> dict[str, str]:
        reason = f"for family {self.family}, which draws no texts"
        return {} if FAMILIES[self.family].draws_texts else {"input_length": reason, "alphabet": reason}

    def held_out(self) -> dict[tuple[str, Any], str]:
        low, high = self.depth_range()
        depth = f"the depth is {low}" if low == high else f"depths are {low} to {high}"
        names = self.function_names()
        depths = {("held_out_depths", n): "" if low <= n <= high else depth for n in self.held_out_depths}
        functions: dict[tuple[str, Any], str] = {
            ("held_out_functions", name): "" if name in names else "it is none of the functions that may occur"
            for name in self.held_out_functions
        }
        for pair in self.held_out_pairs:
            occurs = high > 1 and {*pair} <= {*names}
            functions["held_out_pairs", pair] = "" if occurs else "no program may have it"
        single = "the depth is 1, and single functions stay in all splits" if high == 1 else ""
        return depths | functions | ({("split_by", self.split_by): single} if self.split_by != "program" else {})

    def learnt(self, composed: Composition) -> str:
        """Name the part of a program that its split goes by: all of it, or its functions in their order."""
        whole = self.split_by == "program" or composed.depth == 1
        return composed.identity if whole else " ".join(composed.functions)

    def count(self, split: str) -> int | None:
        """Count the programs of a small space, which training draws again and again; 0 for a split without a composition."""
        space = None if split == "train" else listed(self, split)
        if space is not None:
            return len(space)
        return None if any(split in (ALL, name) for name in self._splits()) else 0

    def _splits(self) -> Iterator[str]:
        """The split of one composition after another; all of them where programs are split."""
        low, high = self.depth_range()
        if self.split_by == "program" or low == 1:
            yield from SPLITS
        for depth in range(low, high + 1):
            for names in itertools.product(self.function_names(), repeat=depth):
                yield split_of(text_hash(" ".join(names)))

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        space = None if split == "train" else listed(self, split)
        if space is None:
            return [self._drawn(split, index, seed) for index in indices]
        if not space:
            raise too_few_programs(self, split)
        ordered = sorted(space, key=lambda composed: rng.mix(text_hash(composed.identity) + seed))
        chosen = [ordered[index % len(ordered)] for index in indices]
        return [
            self._made(split, index, composed, text_hash(composed.identity)) for index, composed in zip(indices, chosen)
        ]

    def _drawn(self, split: str, index: int, seed: int) -> Drawn:
        stream = stream_of(split)
        for attempt in range(MAX_ATTEMPTS):
            key = rng.key(seed, stream, index, attempt)
            composed = compose(self, rng.Draws(key))
            if self.allows(split, composed):
                break
        else:
            raise too_few_programs(self, split)
        return self._made(split, index, composed, key)

    def _made(self, split: str, index: int, composed: Composition, key: int) -> Drawn:
        flatten, functions = int(self.flatten), " ".join(composed.functions)
        slices: dict[str, int | str] = {
            "family": self.family,
            "depth": composed.depth,
            "flatten": flatten,
            "functions": functions,
            **({"held_out_pairs": self._pairs(composed)} if self.held_out_pairs else {}),
        }
        program = Program(composed.code, f"composition {split}/{index}")
        return Drawn(program, composed.identity, key, slices, returns=True, cluster=self.learnt(composed))

    def _pairs(self, composed: Composition) -> int:
        return sum(pair in self.held_out_pairs for pair in itertools.pairwise(composed.functions))

    def allows(self, split: str, composed: Composition) -> bool:
        """Say if a split may have a program."""
        if split not in (ALL, split_of(text_hash(self.learnt(composed)))):
            return False
        if split in SEEN and self._pairs(composed):
            return False
        held_out = set(self.held_out_functions) & set(composed.functions) or composed.depth in self.held_out_depths
        return not (held_out and split == "train")


@lru_cache(maxsize=256)
def listed(task: CompositionTask, split: str) -> tuple[Composition, ...] | None:
    """The distinct programs of a split, or of all of them; None where they are too many to be listed."""
    space = _space(task)
    return None if space is None else tuple(one for one in space if task.allows(split, one))


@lru_cache(maxsize=64)
def _space(task: CompositionTask) -> tuple[Composition, ...] | None:
    found = outcomes(partial(compose, task), LISTED)
    return None if found is None else tuple({one.identity: one for one in reversed(found)}.values())


class Composition(NamedTuple):
    """A drawn program; `functions` from the innermost call outwards. `identity` is the same nested or flattened, and for each of
    several families that differ in the type of values alone."""

    code: str
    functions: tuple[str, ...]
    depth: int
    identity: str


def compose(config: CompositionTask, draws: rng.Draws) -> Composition:
    """One composition. Its draws do not depend on `flatten`, so both forms of a program exist at the same index."""
    family = FAMILIES[config.family]
    depth = draws.integer(*config.depth_range())
    names = tuple(draws.choice(config.function_names()) for _ in range(depth))
    drawn = family.draw_input(draws, config)
    others = [[extra(draws, config) for extra in family.functions[name]] for name in names]
    argument = repr(family.typed(drawn, config))
    extras = ["".join(f", {family.typed(other, config)!r}" for other in call) for call in others]

    nested, identity, steps = argument, repr(drawn), []
    for number, (name, extra) in enumerate(zip(names, extras), start=1):
        steps.append(f"    t{number} = {name}({argument if number == 1 else f't{number - 1}'}{extra})\n")
        nested = f"{name}({nested}{extra})"
        identity = f"{name}({identity}{''.join(f', {other!r}' for other in others[number - 1])})"
    body = "".join(steps) + f"    return t{depth}\n" if config.flatten else f"    return {nested}\n"
    sources = "\n\n".join(family.sources[name] for name in sorted(set(names)))
    return Composition(f"{sources}\n\ndef main():  {MARKER}\n{body}", names, depth, identity)
