"""The programs task: real programs, each with its arguments and, where known, its result.

They are untrusted: they are traced in a sandbox, and one that cannot be traced has its outcome on record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import model_validator

from remedy.data_gen.execution.pool import Outcome, environment, retrace_shallower, trace_all
from remedy.data_gen.execution.program import Trace
from remedy.data_gen.execution.sandbox import Environment, TracerConfig
from remedy.data_gen.rewrites import RewriteName, rewrite_program
from remedy.data_gen.splits import ALL, SPLITS, split_of, text_hash
from remedy.data_gen.tasks.program_sources import BENCHMARKS, Case, read_cases
from remedy.data_gen.tasks.task import TASKS, Drawn, Task
from remedy.messages import shown, suggest
from remedy.registry import one_of
from remedy.settings import ConfigError


@TASKS.register("programs")
class ProgramsTask(Task):
    """Real programs: a benchmark's, or your own."""

    is_seeded = False

    kind: Literal["programs"] = "programs"
    benchmark: Annotated[str, one_of(BENCHMARKS)] | None = None
    """CruxEval-O (800 functions) or HumanEval (723 executions), from the Hugging Face hub unless a `path` is given."""
    path: str | None = None
    """A JSONL file in the benchmark's own form. Without a benchmark: a folder of `.py` files with a marked entry point, or a
    JSONL file whose lines hold `code` (defining `f`), `input` (its arguments) and perhaps `output` and `id`."""
    rewrites: tuple[RewriteName, ...] = ()
    """Rewrites applied to every program (`remedy.data_gen.rewrites`)."""
    held_out_programs: tuple[str, ...] = ()
    """Ids of programs that the train split never has."""
    tracer: TracerConfig = TracerConfig()
    """How the programs are run."""

    @model_validator(mode="after")
    def _given(self) -> ProgramsTask:
        if self.benchmark is None and self.path is None:
            raise ValueError(
                "task programs needs `benchmark: cruxeval` or `humaneval`, or the `path` of your own programs"
            )
        return self

    @property
    def name(self) -> str:
        return self.benchmark or str(self.path)

    def describe(self) -> str:
        return "Real programs, run in a sandbox; what could not be traced is marked by its outcome"

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        cases = split_cases(self, split)
        missing = next((index for index in indices if index >= len(cases)), None)
        if missing is not None:
            raise ConfigError(
                f"data.task: {self.name} has {len(cases)} programs of the {split} split; index {missing} was asked for"
            )
        python = self.environment().python
        return [self._drawn(cases[index], python) for index in indices]

    def execute(self, drawn: Sequence[Drawn], partial: bool, workers: int) -> Iterator[Outcome]:
        programs = [one.program for one in drawn]
        for program, outcome in zip(programs, trace_all(programs, self.tracer, workers)):
            yield retrace_shallower(program, self.tracer, outcome) if partial else outcome

    def environment(self) -> Environment:
        return environment(self.tracer)

    def slices_of(self, trace: Trace) -> Mapping[str, int | str]:
        return {"unreadable": trace.unreadable}

    @property
    def interpreter(self) -> str | None:
        return self.tracer.python

    def count(self, split: str) -> int:
        return len(split_cases(self, split))

    def clusters(self, split: str, count: int) -> int:
        """Executions of one function are one."""
        return len({case.group for case in split_cases(self, split)[:count]})

    def rewritten(self, kinds: Iterable[str]) -> ProgramsTask:
        return self.changed({"rewrites": tuple(kinds)})

    def _drawn(self, case: Case, python: str) -> Drawn:
        slices: dict[str, int | str] = {"source": case.id, "python": python}
        return Drawn(
            case.program,
            case.identity,
            text_hash(case.identity),
            slices,
            expected=case.expected,
            returns=case.expected is not None,
            cluster=case.group,
        )


def load_cases(config: ProgramsTask) -> tuple[Case, ...]:
    """All programs, in the order of the benchmark, of file names, or of lines.

    Raises:
        ConfigError: the source cannot be reached or read, holds no program, or a line is malformed (file and line named).
    """
    cases = read_cases(config.benchmark, config.path)
    if not config.rewrites:
        return cases
    return tuple(case._replace(program=rewrite_program(case.program, config.rewrites)) for case in cases)


@lru_cache(maxsize=24)
def split_cases(task: ProgramsTask, split: str) -> tuple[Case, ...]:
    """The programs of a split, in order; the split `all` has every one. Executions of one function are in one split.

    Raises:
        ConfigError: as `load_cases`.
    """
    everything = load_cases(task)
    ids = dict.fromkeys(case.id for case in everything)
    for unknown in (id for id in task.held_out_programs if id not in ids):
        raise ConfigError(
            f"data.task.held_out_programs: {task.name} has no program {shown(unknown)}; {suggest(unknown, ids)}"
        )
    if split == ALL:
        return everything
    SPLITS[split]
    return tuple(
        case
        for case in everything
        if split_of(text_hash(case.group)) == split and not (split == "train" and case.id in task.held_out_programs)
    )
