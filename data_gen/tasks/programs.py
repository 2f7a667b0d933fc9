"""The programs task: real, untrusted programs, which a sandbox traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remedy import rng
from remedy.data_gen.execution.pool import Outcome, environment, retrace_shallower
from remedy.data_gen.execution.program import Trace
from remedy.data_gen.execution.sandbox import Environment, TracerConfig
from remedy.data_gen.rewrites import RewriteName, rewrite_program
from remedy.data_gen.splits import ALL, SPLITS, text_hash
from remedy.data_gen.tasks.calls import called
from remedy.data_gen.tasks.program_sources import BENCHMARKS, Case, read_cases
from remedy.data_gen.tasks.task import TASKS, Drawn, Task
from remedy.data_gen.tasks.trace_cache import traced_once
from remedy.data_gen.traces.marks import marked_lines
from remedy.messages import shown, suggest
from remedy.registry import one_of
from remedy.settings import ConfigError, Settings


class Shares(Settings):
    """Shares of the splits, which sum to 1."""

    train: float = Field(default=0.8, ge=0)
    """Share of training programs."""
    validation: float = Field(default=0.1, ge=0)
    """Share of validation programs."""
    test: float = Field(default=0.1, ge=0)
    """Share of test programs."""

    @model_validator(mode="after")
    def _whole(self) -> Shares:
        if abs((total := sum(self.parts.values())) - 1) > 1e-6:
            raise ValueError(
                f"shares come to {total:g}, not 1: {', '.join(f'{k} {v:g}' for k, v in self.parts.items())}"
            )
        return self

    @property
    def parts(self) -> dict[str, float]:
        """Return the share of each split that has one."""
        return {name: share for name in SPLITS if (share := getattr(self, name))}


@TASKS.register("programs")
class ProgramsTask(Task):
    """Real programs: a benchmark's, or your own."""

    is_seeded = False

    kind: Literal["programs"] = "programs"
    benchmark: Annotated[str, one_of(BENCHMARKS)] | None = None
    """CruxEval-O (`cruxeval-org/cruxeval`, 800 functions), HumanEval (`openai/openai_humaneval`, 723 executions), MBPP (its tests,
    `google-research-datasets/mbpp`) or the execution task of LiveCodeBench (`livecodebench/execution-v2`), from the Hugging Face hub
    unless a `path` is given."""
    path: str | None = None
    """A JSONL file in the benchmark's own form. Without a benchmark: a folder of `.py` files with a marked entry point, or a
    JSONL file whose lines hold `code` (defining `f`), `input` (its arguments) and perhaps `output`, `id` and `split`. Programs below
    a folder `train`, `validation` or `test` are of that split."""
    input: str | None = None
    """The arguments of `f` as Python text (`"'abc', 3"`), if the `path` is a `.py` file that defines it and marks no entry point."""
    split_by: Literal["hash", "function", "program"] = "hash"
    """How programs without a split are divided. `hash`: a hash of the function picks the split of all its executions; it stays when
    programs are added, and `shares` hold on average. `function`: functions are divided in exactly these shares. `program`: executions
    are divided, so that a function is trained on with other inputs than it is tested with."""
    shares: Shares = Shares()
    """The share of each split."""
    rewrites: tuple[RewriteName, ...] = ()
    """Rewrites applied to every program (`remedy.data_gen.rewrites`)."""
    held_out_programs: tuple[str, ...] = ()
    """Ids of programs that the train split never has."""
    tracer: TracerConfig = TracerConfig()
    """How the programs are run."""

    @model_validator(mode="after")
    def _has_source(self) -> ProgramsTask:
        if self.benchmark is None and self.path is None:
            raise ValueError(
                "task programs needs a `benchmark`, such as `cruxeval`, or the `path` of your own programs"
            )
        if self.input is not None and (self.benchmark is not None or not str(self.path).endswith(".py")):
            raise ValueError(
                "input is of a single program: remove it, or give the `path` of a .py file that defines `f`"
            )
        return self

    @property
    def name(self) -> str:
        return self.benchmark or str(self.path)

    @property
    def splits_by(self) -> str:
        parts = ", ".join(f"{name} {share:g}" for name, share in self.shares.parts.items())
        return f"{self.split_by} ({parts})"

    def describe(self) -> str:
        return "Real programs, run in a sandbox; what could not be traced is marked by its outcome"

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        cases = split_cases(self, split)
        missing = next((index for index in indices if index >= len(cases)), None)
        if missing is not None:
            raise ConfigError(
                f"data.task: index {missing} of the {split} split was asked for; {self.describe_splits()}"
            )
        python = self.environment().python
        return [self._drawn(cases[index], python) for index in indices]

    def execute(self, drawn: Sequence[Drawn], partial: bool, workers: int) -> Iterator[Outcome]:
        for draw, outcome in zip(drawn, traced_once([draw.program for draw in drawn], self.tracer, workers)):
            outcome = called(draw.program, outcome)
            yield retrace_shallower(draw.program, self.tracer, outcome) if partial else outcome

    def environment(self) -> Environment:
        return environment(self.tracer)

    def slices_of(self, trace: Trace) -> Mapping[str, int | str]:
        return {"unreadable": trace.unreadable}

    @property
    def interpreter(self) -> str | None:
        return self.tracer.python

    @property
    def has_splits(self) -> bool:
        """Say if the source gives the splits."""
        return load_cases(self)[0].split is not None

    def count(self, split: str) -> int:
        return len(split_cases(self, split))

    def has_marks(self) -> bool:
        return not self.rewrites and _have_marks(self)  # a program that is rewritten loses its comments

    def split_rule(self) -> str:
        if self.has_splits:
            return "Their source gives every program its split"
        rule = {
            "hash": "A hash of its function picks a program's split, so that no function is in two of them",
            "function": "Functions are dealt out to splits, so that none is in two of them",
            "program": "Programs are dealt out to splits: functions that are tested with some inputs are trained on with others",
        }[self.split_by]
        return f"{rule}; split_by {self.splits_by}"

    def describe_splits(self) -> str:
        cases = load_cases(self)
        functions = len({case.group for case in cases})
        counts = ", ".join(f"{split} {self.count(split):,}" for split in SPLITS)
        by = "as its source says" if self.has_splits else f"split_by {self.split_by}"
        return f"{self.name}: {len(cases):,} programs of {functions:,} functions: {counts} ({by})"

    def require(self, split: str, count: int, reader: str) -> None:
        available = self.count(split)
        if available >= count:
            return
        cure = (
            f'give lines `"split": "{split}"`'
            if self.has_splits
            else "write another `split_by` or other `shares` in data.task"
        )
        raise ConfigError(
            f"{reader} asks for {count:,} of the {split} split, which has {available:,}. {self.describe_splits()}. "
            f"Ask for fewer, or {cure}"
        )

    def clusters(self, split: str, count: int) -> int:
        """Count functions: all executions of one stand or fall together, also where splits share it."""
        return len({case.group for case in split_cases(self, split)[:count]})

    def rewritten(self, kinds: Iterable[str]) -> ProgramsTask:
        return self.changed({"rewrites": tuple(kinds)})

    def _drawn(self, case: Case, python: str) -> Drawn:
        slices: dict[str, int | str] = {"source": case.id, "python": python}
        if case.licence is not None:
            slices["licence"] = case.licence
        return Drawn(
            case.program,
            case.identity,
            text_hash(case.identity),
            slices,
            expected=case.expected,
            returns=case.expected is not None,
            cluster=case.group,
        )


def load_cases(task: ProgramsTask) -> tuple[Case, ...]:
    """Return all programs in the order of their source, rewritten if asked.

    Raises:
        ConfigError: as `read_cases`, or a held-out program does not exist.
    """
    cases = read_cases(task.benchmark, task.path, task.input)
    ids = dict.fromkeys(case.id for case in cases)
    for unknown in (id for id in task.held_out_programs if id not in ids):
        raise ConfigError(
            f"data.task.held_out_programs: {task.name} has no program {shown(unknown)}; {suggest(unknown, ids)}"
        )
    if not task.rewrites:
        return cases
    return tuple(case._replace(program=rewrite_program(case.program, task.rewrites)) for case in cases)


def split_cases(task: ProgramsTask, split: str) -> tuple[Case, ...]:
    """Return the programs of a split (`all`: every one).

    Raises:
        ConfigError: as `load_cases`, or there are fewer functions or programs than splits.
    """
    return load_cases(task) if split == ALL else _by_split(task)[SPLITS.check(split)]


@lru_cache(maxsize=24)
def _by_split(task: ProgramsTask) -> dict[str, tuple[Case, ...]]:
    cases = load_cases(task)
    if task.has_splits:
        if (task.split_by, task.shares) != ("hash", Shares()):
            raise ConfigError(f"data.task: split_by and shares do nothing, since {task.name} gives splits: remove them")
        splits = [str(case.split) for case in cases]
    elif task.split_by == "hash":
        splits = [_by_hash(text_hash(case.group), task.shares.parts) for case in cases]
    else:
        units = [case.group if task.split_by == "function" else case.identity for case in cases]
        split_of_unit = _deal(units, task)
        splits = [split_of_unit[unit] for unit in units]
        # By hash, so that the first programs of a split are a sample of it, not those of a few functions.
        pairs = sorted(zip(cases, splits), key=lambda pair: text_hash(pair[0].identity))
        cases, splits = tuple(case for case, _ in pairs), [split for _, split in pairs]
    left_out = set(task.held_out_programs)
    by_split = {split: [case for case, case_split in zip(cases, splits) if case_split == split] for split in SPLITS}
    by_split["train"] = [case for case in by_split["train"] if case.id not in left_out]
    return {split: tuple(members) for split, members in by_split.items()}


@lru_cache(maxsize=24)
def _have_marks(task: ProgramsTask) -> bool:
    return any(marked_lines(case.program.code) for case in load_cases(task))


def _by_hash(content: int, shares: Mapping[str, float]) -> str:
    position, reached = rng.below(rng.mix(content), 10_000), 0.0
    for name, share in shares.items():
        reached += share
        if position < round(10_000 * reached):
            return name
    return list(shares)[-1]


def _deal(units: Sequence[str], task: ProgramsTask) -> dict[str, str]:
    order = sorted(set(units), key=text_hash)
    names, share, split_of_unit = list(task.shares.parts), 0.0, dict[str, str]()
    if len(order) < len(names):
        raise ConfigError(
            f"data.task: split_by {task.split_by} finds {len(order)} in {task.name}, too few to deal out to {', '.join(names)}: "
            "give more, another `split_by`, `split` in every line, or other `shares`"
        )
    for remaining, name in zip(reversed(range(len(names))), names):
        share += task.shares.parts[name]
        stop = max(len(split_of_unit) + 1, min(round(share * len(order)), len(order) - remaining))
        split_of_unit.update(dict.fromkeys(order[len(split_of_unit) : stop], name))
    return split_of_unit
