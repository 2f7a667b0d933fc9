"""The composition task: `f(g(h(x)))`, nested, with temporaries, or on several lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from remedy import rng
from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.splits import ALL, SEEN, SPLITS, split_of, stream_of, text_hash
from remedy.data_gen.tasks.families import FAMILIES, LETTERS, Texts, expression
from remedy.data_gen.tasks.small_spaces import outcomes
from remedy.data_gen.tasks.task import MAX_ATTEMPTS, TASKS, Drawn, Task, too_few_programs
from remedy.messages import shown, suggest
from remedy.registry import one_of
from remedy.settings import ConfigError, low_high

LONGEST = 10_000
MOST_LINES = 1000
LISTED = 10_000
"""Spaces of at most so many programs, counted as often as they can be drawn, are listed."""


@TASKS.register("composition")
class CompositionTask(Task):
    """Functions of one family, applied to each other's results."""

    kind: Literal["composition"] = "composition"
    family: Annotated[str, one_of(FAMILIES)] = "strings"
    """The type of the functions' arguments and results."""
    functions: tuple[str, ...] = ()
    """Functions of the family to use; empty: all."""
    depth: int | tuple[int, int] = 1
    """Number of composed calls, fixed or drawn from [low, high]."""
    flatten: bool = False
    """Write each call on its own line, with its result in a temporary variable."""
    parallel: int = Field(default=1, ge=1, le=MOST_LINES)
    """Compositions of a program, each a line `t = ...` on an input of its own. Several need `split_by: inputs`, and have each function
    equally often, as nearly as they can."""
    input_length: tuple[int, int] = (3, 8)
    """Characters of a random input string."""
    alphabet: str = Field(default=LETTERS, min_length=1)
    """The letters of random strings."""
    split_by: Literal["program", "functions", "inputs"] = "program"
    """The unit that no two splits share: `program`, or the sequence of composed functions with any input. Single functions are in all
    splits, each of their programs in one. `inputs`: what functions are first applied to, and arguments that are drawn as it is."""
    held_out_functions: tuple[str, ...] = ()
    """Functions that the train split never has."""
    held_out_depths: tuple[int, ...] = ()
    """Depths that the train split never has."""
    held_out_pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of functions: programs of training and validation never apply the second to what the first returns."""
    test_pairs: Literal["with", "without"] | None = None
    """Test programs that have at least one held-out pair, or none, as in training; null: drawn as if none were held out."""

    @model_validator(mode="after")
    def _settings_exist(self) -> CompositionTask:
        low, high = self.depth_range()
        if not 1 <= low <= high <= 8:
            raise ValueError(f"depth must lie in 1..8, got {shown(self.depth)}")
        if not 0 <= self.input_length[0] <= self.input_length[1] <= LONGEST:
            raise ValueError(
                f"input_length must be [low, high] with 0 <= low <= high <= {LONGEST}, got {shown(self.input_length)}"
            )
        if self.parallel > 1 and self.split_by != "inputs":
            raise ValueError(
                f"parallel {self.parallel}: programs of several lines need split_by: inputs, so that no line of one split has an input "
                f"of another's; got split_by: {self.split_by}"
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

    def has_calls(self) -> bool:
        return not FAMILIES[self.family].inline

    def has_loops(self) -> bool:
        return self.has_calls()

    def without_effect(self, session: bool) -> dict[str, str]:
        idle: dict[str, str] = {}
        if not FAMILIES[self.family].draws_texts:
            idle |= dict.fromkeys(("input_length", "alphabet"), f"for family {self.family}, which draws no texts")
        if not self.held_out_pairs:
            idle["test_pairs"] = "without held_out_pairs"
        if self.parallel > 1:
            reason = f"in programs of {self.parallel} parallel lines"
            idle |= dict.fromkeys(("flatten", "held_out_depths", "held_out_pairs", "test_pairs"), reason)
        return idle

    def split_rule(self) -> str:
        if self.split_by != "inputs":
            return super().split_rule()
        return "The hash of an input picks its split, so no input occurs in two of them"

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
        alone = high == 1 and self.split_by == "functions"
        single = "the depth is 1, and single functions stay in all splits" if alone else ""
        return depths | functions | ({("split_by", self.split_by): single} if self.split_by != "program" else {})

    def learnt(self, composed: Composition) -> str:
        """Return the text that decides a program's split."""
        whole = self.split_by != "functions" or composed.depth == 1
        return composed.identity if whole else " ".join(composed.functions)

    def count(self, split: str) -> int | None:
        """Count a small space; 0 for a split without programs, else None."""
        space = None if split == "train" else listed(self, split)
        if space is not None:
            return len(space)
        return None if any(split in (ALL, name) for name in self._splits()) else 0

    def _splits(self) -> Iterator[str]:
        """Yield the splits that have programs, some repeatedly."""
        low, high = self.depth_range()
        if self.split_by != "functions" or low == 1:
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
        # In an order of the seed, every program once before any comes again.
        ordered = sorted(space, key=lambda composed: rng.mix(text_hash(composed.identity) + seed))
        chosen = [ordered[index % len(ordered)] for index in indices]
        return [
            self._drawn_from(split, index, composed, text_hash(composed.identity))
            for index, composed in zip(indices, chosen)
        ]

    def _drawn(self, split: str, index: int, seed: int) -> Drawn:
        stream = stream_of(split)
        for attempt in range(MAX_ATTEMPTS):
            key = rng.key(seed, stream, index, attempt)
            composed = compose(self, rng.Draws(key), split, index)
            if self.allows(split, composed):
                break
        else:
            raise too_few_programs(self, split)
        return self._drawn_from(split, index, composed, key)

    def _drawn_from(self, split: str, index: int, composed: Composition, key: int) -> Drawn:
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
        units = composed.inputs if self.split_by == "inputs" else (self.learnt(composed),)
        if split != ALL and any(split_of(text_hash(unit)) != split for unit in units):
            return False
        wanted = "without" if split in SEEN else self.test_pairs
        if wanted and (wanted == "with") != bool(self._pairs(composed)):
            return False
        held_out = set(self.held_out_functions) & set(composed.functions) or composed.depth in self.held_out_depths
        return not (held_out and split == "train")


@lru_cache(maxsize=256)
def listed(task: CompositionTask, split: str) -> tuple[Composition, ...] | None:
    """List the distinct programs of a split; None if there are too many."""
    space = _space(task)
    return None if space is None else tuple(composed for composed in space if task.allows(split, composed))


@lru_cache(maxsize=64)
def _space(task: CompositionTask) -> tuple[Composition, ...] | None:
    unpaired = task.model_copy(update={"test_pairs": None})
    drawn = outcomes(partial(compose, unpaired), LISTED) if task.parallel == 1 else None
    return None if drawn is None else tuple({composed.identity: composed for composed in reversed(drawn)}.values())


class Composition(NamedTuple):
    """Drawn program.

    `functions`: from the first line's innermost call outwards. `identity`: the same nested or flattened, and for families
    that differ in the type of values alone.
    """

    code: str
    functions: tuple[str, ...]
    depth: int
    identity: str
    inputs: tuple[str, ...]


class _Line(NamedTuple):
    steps: tuple[str, ...]
    nested: str
    identity: str


def compose(config: CompositionTask, draws: rng.Draws, split: str = ALL, index: int = 0) -> Composition:
    """Draw one program; the draws do not depend on `flatten`.

    `split`: that of the inputs under `split_by: inputs`. `index`: the turn of functions in parallel lines.
    """
    family = FAMILIES[config.family]
    inputs = _Inputs(config, draws, split)
    if config.parallel > 1:
        chosen = _in_turn(config, draws, split, index)
        lines = [_line(config, draws, inputs, names) for names in chosen]
        body = "".join(f"    t = {line.nested}\n" for line in lines) + "    return t\n"
    else:
        depth = draws.integer(*config.depth_range())
        names = [draws.choice(config.function_names()) for _ in range(depth)]
        pairs = [pair for pair in config.held_out_pairs if {*pair} <= {*config.function_names()}]
        if config.test_pairs == "with" and split not in SEEN and depth > 1 and pairs:  # by chance few programs have one
            start = draws.integer(0, depth - 2)
            names[start : start + 2] = draws.choice(pairs)
        chosen = [tuple(names)]
        lines = [_line(config, draws, inputs, chosen[0])]
        steps = "".join(f"    t{number} = {step}\n" for number, step in enumerate(lines[0].steps, start=1))
        body = f"{steps}    return t{depth}\n" if config.flatten else f"    return {lines[0].nested}\n"
    functions = tuple(itertools.chain(*chosen))
    sources = [] if family.inline else [family.sources[name] for name in sorted({*functions})]
    code = "\n\n".join([*sources, f"def main():  {MARKER}\n{body}"])
    identity = "\n".join(line.identity for line in lines)
    return Composition(code, functions, max(map(len, chosen)), identity, tuple(inputs.drawn))


def _in_turn(config: CompositionTask, draws: rng.Draws, split: str, index: int) -> list[tuple[str, ...]]:
    """Draw each line's functions, all equally often over lines and programs."""
    names = [name for name in config.function_names() if split != "train" or name not in config.held_out_functions]
    if not names:
        raise too_few_programs(config, split)
    depths = [draws.integer(*config.depth_range()) for _ in range(config.parallel)]
    turns = range(index * sum(depths), (index + 1) * sum(depths))
    order = iter(sorted((names[turn % len(names)] for turn in turns), key=lambda _: draws.integer(0, 2**31)))
    return [tuple(itertools.islice(order, depth)) for depth in depths]


def _line(config: CompositionTask, draws: rng.Draws, inputs: _Inputs, names: tuple[str, ...]) -> _Line:
    family = FAMILIES[config.family]
    start = inputs.draw()
    texts = inputs.texts._replace(text=start if isinstance(start, str) else "")
    others = [
        [inputs.draw() if extra is family.draw_input else extra(draws, texts) for extra in family.functions[name]]
        for name in names
    ]
    nested, identity, steps = repr(family.typed(start, texts)), repr(start), []
    for number, (name, extras) in enumerate(zip(names, others)):
        arguments = [repr(family.typed(other, texts)) for other in extras]
        write = partial(expression, family.sources[name]) if family.inline else partial(_call, name)
        steps.append(write([f"t{number}" if number else nested, *arguments]))
        nested = write([nested, *arguments])
        identity = _call(name, [identity, *map(repr, extras)])
    return _Line(tuple(steps), nested, identity)


def _call(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({', '.join(arguments)})"


class _Inputs:
    def __init__(self, config: CompositionTask, draws: rng.Draws, split: str) -> None:
        self.config, self.draws = config, draws
        self.split = split if config.split_by == "inputs" else ALL
        self.texts = Texts(config.alphabet, config.input_length)
        self.drawn: list[str] = []

    def draw(self) -> Any:
        for _ in range(MAX_ATTEMPTS):
            value = FAMILIES[self.config.family].draw_input(self.draws, self.texts)
            text = repr(value)
            repeated = self.config.parallel > 1 and text in self.drawn
            if not repeated and self.split in (ALL, split_of(text_hash(text))):
                self.drawn.append(text)
                return value
        raise ConfigError(
            f"data.task ({self.config.kind}): {self._counted()} of family {self.config.family} are of the {self.split} split, too few "
            f"for programs of {self.config.parallel} lines, each with inputs of its own: make more (input_length, alphabet, family), "
            "or make parallel smaller"
        )

    def _counted(self) -> str:
        draw_input = FAMILIES[self.config.family].draw_input
        drawn = outcomes(lambda draws: repr(draw_input(draws, self.texts)), LISTED)
        if drawn is None:
            return f"some of more than {LISTED} inputs"
        inputs = {*drawn}
        usable = sum(self.split in (ALL, split_of(text_hash(text))) for text in inputs)
        return f"{usable} of the {len(inputs)} different inputs"
