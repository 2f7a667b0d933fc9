"""Interface of tasks, which draw and run programs."""

from __future__ import annotations

import contextlib
import inspect
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from remedy.data_gen.execution.pool import Outcome, environment
from remedy.data_gen.execution.program import Event, Program, ProgramError, Trace
from remedy.data_gen.execution.sandbox import Environment, TracerConfig
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.values import same_value
from remedy.registry import Registry
from remedy.settings import ConfigError, Settings

MAX_ATTEMPTS = 1000
"""Draws before a task is said to have no program of a split."""


class Drawn(NamedTuple):
    """Drawn program, before it is run."""

    program: Program
    identity: str
    """The same for a program however it is written down (format, spacing, encoding, nested or flattened, rewritten)."""
    key: int
    """The random key of what is drawn when the trace is written: the variables of `locals: one_at_random`."""
    slices: dict[str, int | str]
    """The properties that results are broken down by."""
    trace: Trace | None = None
    """The trace, where the task knows it without running the program."""
    answer: str | None = None
    """The answer, where it is not the returned value."""
    answer_in_state: bool = False
    """Whether the answer is the last state that the trace shows, since the program returns nothing."""
    expected: str | None = None
    """The repr of the result that the program's source says it has; another result is the outcome `mismatch`."""
    returns: bool = False
    """Whether the program is known to return before it is run: so that it does not raise."""
    cluster: str | None = None
    """What programs that stand or fall together share, as executions of one function do; by default `identity`."""


class Guesses(NamedTuple):
    """Rates of right answers without a model; None where the task does not know."""

    chance: float | None
    """The probability that a guess among the possible answers is right."""
    start: bool | None
    """Whether answering with what the program starts from is right."""


class TextColumns(NamedTuple):
    """Programs, answers and slices of examples."""

    programs: list[str]
    answers: list[str]
    slices: Mapping[str, Sequence[Any]]


class TokenArrays(NamedTuple):
    """Padded token ids, roles (PAD_ROLE on padding) and frame numbers, (B, T); `lengths`: (B,)."""

    ids: npt.NDArray[np.int64]
    roles: npt.NDArray[np.int8]
    frames: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    about: Callable[[], TextColumns]
    """What else is known of the examples."""


class Task(Settings, ABC):
    """Programs to trace; only `draw` and `describe` are needed."""

    has_sessions: ClassVar[bool] = False
    """Whether the programs can be written as sessions, whose commands are read one by one."""
    is_seeded: ClassVar[bool] = True
    """Whether `data.seed` chooses the programs."""

    kind: str

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Before pydantic collects the fields, which would warn of a shadowed name.
        for name, annotation in inspect.get_annotations(cls).items():
            if hasattr(Task, name) and "ClassVar" not in str(annotation):
                taken = ", ".join(word for word in vars(Task) if not word.startswith(("_", "model_")))
                raise TypeError(f"{cls.__name__}: a setting cannot be called {name}; a task's own words are {taken}")

    @abstractmethod
    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        """Draw the programs at the indices, each a function of its arguments alone.

        The task draws again until a hash of the content gives `split`. `session`: draw sessions, where the task has them.

        Raises:
            ConfigError: the task has no program of the split, or none at an index.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describe the programs in a phrase for cards and reports."""

    @property
    def name(self) -> str:
        """Name this set of programs in records and reports."""
        return self.kind

    @property
    def splits_by(self) -> str:
        """Return what decides a program's split, to compare tasks."""
        return str(getattr(self, "split_by", "program"))

    def execute(self, drawn: Sequence[Drawn], partial: bool, workers: int) -> Iterator[Outcome]:
        """Run each program and yield its outcome, by default in this process.

        `partial`: deep calls may be stepped over.
        """
        for item in drawn:
            yield _traced(item.program) if item.trace is None else item.trace

    def environment(self) -> Environment:
        """Return the interpreter that runs the programs, and its isolation."""
        return environment(TracerConfig(isolation="trusted"))

    @property
    def interpreter(self) -> str | None:
        """Return `tracer.python`; None: this process's interpreter."""
        return None

    def count(self, split: str) -> int | None:
        """Count the programs of a split; None if they are unlimited."""
        return None

    def split_rule(self) -> str:
        """Explain how programs get their splits, in a sentence."""
        return "The program's content hash picks its split, so no program occurs in two of them"

    def describe_splits(self) -> str:
        """Describe the number of given programs in each split."""
        return ""

    def require(self, split: str, count: int, reader: str) -> None:
        """Refuse a split with fewer than `count` programs, which `reader` needs.

        Raises:
            ConfigError: there are fewer.
        """

    def clusters(self, split: str, count: int) -> int:
        """Count the clusters among a split's first `count` programs."""
        if self.splits_by == "program":
            return count
        return len(
            {program.cluster or program.identity for program in self.draw(split, range(count), 0, self.has_sessions)}
        )

    def symbols(self) -> list[str] | None:
        """List every text of the symbolic format, if they are finite."""
        return None

    def token_arrays(
        self, split: str, indices: Sequence[int], seed: int, reveal: RevealConfig, context: bool
    ) -> TokenArrays | None:
        """Return examples in symbolic format as arrays, or None.

        Ids index special tokens, then `symbols`.
        """
        return None

    def guesses(self, trace: Trace, answer: str) -> Guesses:
        """Rate guesses of an answer; by default the first call's first argument."""
        called = next((f.locals for f in trace.frames[1:] if f.event is Event.CALL), None)
        argument = next(iter(called.values()), None) if called else None
        return Guesses(None, None if argument is None else same_value(argument.text, answer))

    def slices_of(self, trace: Trace) -> Mapping[str, int | str]:
        """Return properties that only an example's trace tells."""
        return {}

    def has_marks(self) -> bool:
        """Say if a given program marks a line."""
        return False

    def has_strings(self, session: bool) -> bool:
        """Say if a written value may be or hold a string."""
        return True

    def has_calls(self) -> bool:
        """Say if a program may call a function of its own."""
        return True

    def has_loops(self) -> bool:
        """Say if a program may have a loop, or a function that calls itself."""
        return True

    def returns_nothing(self) -> bool:
        """Say if answers are read from last states."""
        return False

    def without_effect(self, session: bool) -> Mapping[str, str]:
        """Return idle settings with the reason."""
        return {}

    def held_out(self) -> Mapping[tuple[str, Any], str]:
        """Return held-out (setting, value) pairs, each with why it is idle, or ""."""
        return {}

    def rewritten(self, kinds: Iterable[str]) -> Task:
        """Return the same programs under rewrites.

        Raises:
            ConfigError: the task has none.
        """
        raise ConfigError(f"rewrites are of given programs, not of the {self.kind} task: remove `rewrites`")


TASKS: Registry[type[Task]] = Registry("task")
"""Tasks by `kind`."""


def too_few_programs(task: Task, split: str) -> ConfigError:
    return ConfigError(
        f"data.task ({task.kind}): no program of the {split} split found in {MAX_ATTEMPTS} draws; "
        "there are too few different programs: make the task larger (length, n, functions, input_length)"
        ", or hold out less"
    )


def _traced(program: Program) -> Outcome:
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # what a program prints is no output of ours
            return trace(program)
    except ProgramError as error:
        return error
