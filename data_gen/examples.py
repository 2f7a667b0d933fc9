"""An example is a pure function of (config, split, index): draw a program, execute it, write down what happened.

The content hash of the *program* picks its split: an index whose candidate falls into another split's share draws again,
so splits are disjoint by construction, whatever the format, spacing or encoding a program is written in.

How a trace is written may depend on a number of tokens (`reveal.max_tokens`), which only the owner of a tokenizer can count.
So the steps are separate: `executions` says what happened, `fit_to_budget` chooses a reveal, and `write` makes the example.
`models.encoding.encoded_examples` does all three; `examples` is for data without such a limit.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny, model_validator

from remedy.data_gen import rng
from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import ProgramError, Trace
from remedy.data_gen.memory import Memory
from remedy.data_gen.messages import shown
from remedy.data_gen.registry import by_kind
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.settings import ConfigError, Settings
from remedy.data_gen.tasks import TASKS, Drawn, Task
from remedy.data_gen.tasks.task import TokenArrays
from remedy.data_gen.traces.budget import allows_partial_trace, densest_reveal, describe
from remedy.data_gen.traces.frames import Rendered, WrittenFrame
from remedy.data_gen.traces.render import FORMATS, FormatName, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.data_gen.traces.values import same_value

OVER_BUDGET = "budget"
"""The outcome of a program whose trace has too many tokens under any reveal."""
HIGHEST_LINE = 1_000_000
NO_RESULT = "raised"
"""The outcome of a program that raised, where its returned value alone is asked for: it has none."""


class DataConfig(Settings):
    """What is generated (`task`) and how it is written down (the rest)."""

    former = {"strings": "string_encoding", "tracer": "task.tracer"}

    task: Annotated[SerializeAsAny[Task], by_kind(TASKS)]
    """Which programs there are; `kind` chooses the task."""
    format: FormatName = "cwm"
    """The text form of a trace: the code world model's own, a Python session, or one token per variable, value and command."""
    context: bool = True
    """Whether the program precedes its trace (always so in the cwm format)."""
    reveal: RevealConfig = RevealConfig()
    """Which frames are written, which of them show their state, and how."""
    first_line: int | tuple[int, int] = 1
    """In formats with numbers, the number of a program's first line, fixed or drawn from [low, high]: where in its file it stands."""
    string_encoding: EncodingName = "plain"
    """How string values are written in the trace."""
    memory: Memory | None = None
    """Which frames before the one being predicted a model still sees, after the context, in training and decoding; positions begin
    anew where it forgets. `4`: the last four; `{frames: 4, open_calls: true}`: and where every call stands that has not returned. None:
    all. With fewer than `reveal.spacing` no state may be in sight; nor what `..` of a diff stands for."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """Chooses the programs, together with the split and the index."""

    @model_validator(mode="after")
    def _lines_ordered(self) -> DataConfig:
        low, high = self.first_lines()
        if not 1 <= low <= high <= HIGHEST_LINE:
            raise ValueError(
                f"first_line must be 1 to {HIGHEST_LINE}, or [low, high] with 1 <= low <= high <= {HIGHEST_LINE}; got "
                f"{shown(self.first_line)}"
            )
        return self

    @model_validator(mode="after")
    def _something_to_ask(self) -> DataConfig:
        if self.reveal.answer_only and self.task.returns_nothing():
            raise ValueError(
                "reveal.answer_only asks for the returned value, and these programs return nothing: remove it"
            )
        return self

    @model_validator(mode="after")
    def _context_needed(self) -> DataConfig:
        if not self.context and not FORMATS[self.format].hides_program:
            raise ValueError(f"the {self.format} format always shows the program: remove `context: false`")
        if not self.task.has_sessions and not self.context:
            raise ValueError(f"task {self.task.kind} needs its program: remove `context: false`")
        if self.reveal.answer_only and not FORMATS[self.format].answers_only:
            able = ", ".join(name for name, format in FORMATS.items() if format.answers_only)
            raise ValueError(
                f"the {self.format} format cannot ask for the answer alone: use {able}, or remove answer_only"
            )
        return self

    @model_validator(mode="after")
    def _frames_to_remember(self) -> DataConfig:
        able = [name for name, format in FORMATS.items() if format.closes_frames or format.one_token]
        if self.memory is not None and self.format not in able:
            raise ValueError(
                f"memory {self.memory}: nothing that a model writes in the {self.format} format says where a frame ends: use "
                f"{', '.join(able)}, or remove memory"
            )
        telling = [name for name in able if FORMATS[name].events]
        if self.memory is not None and self.memory.open_calls and self.format not in telling:
            raise ValueError(
                f"memory.open_calls: the {self.format} format writes no events, so that no frame says what is called or returns: use "
                f"{', '.join(telling)}, or memory {self.memory.frames}"
            )
        return self

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> DataConfig:
        self.refuse_idle(self.without_effect())
        return self

    def without_effect(self) -> dict[str, str]:
        """Settings that do nothing beside the others, by their dotted keys, each with the reason."""
        session = self.writes_sessions and self.task.has_sessions
        found = {f"task.{key}": because for key, because in self.task.without_effect(session).items()}
        if session:
            found["reveal.call_depth"] = "in a session, which calls nothing"
        if not self.task.has_strings(session):
            found["string_encoding"] = "where no value is a string or holds one"
        if self.reveal.answer_only:
            found["memory"] = "with reveal.answer_only, which writes no frames before the answer"
        if not FORMATS[self.format].numbers_lines:
            found["first_line"] = f"in the {self.format} format, whose lines have no numbers"
        if not self.task.is_seeded:
            found["seed"] = f"for task {self.task.kind}, whose programs are given"
        return found

    def with_task(self, task: Task) -> DataConfig:
        """The programs of another task, written down as these are; what does nothing for that task is left out.

        Raises:
            ConfigError: the task cannot be written down so.
        """
        idle = self.model_copy(update={"task": task}).without_effect()
        changes: dict[str, Any] = {"task": task.model_dump()}
        defaults = {"reveal.call_depth": None, "string_encoding": "plain", "seed": 0}
        return self.changed({**changes, **{key: defaults[key] for key in idle if key in defaults}}, f"task {task.name}")

    def first_lines(self) -> tuple[int, int]:
        """The lowest and the highest number that a program's first line may have."""
        return (self.first_line, self.first_line) if isinstance(self.first_line, int) else self.first_line

    @property
    def writes_sessions(self) -> bool:
        """Whether the format writes a session of commands where the task has one."""
        return FORMATS[self.format].session


@dataclass(frozen=True, slots=True)
class Execution:
    """What happened when the program at an index ran: its trace, or the error that says why there is none."""

    index: int
    split: str
    drawn: Drawn
    outcome: Outcome

    @property
    def trace(self) -> Trace:
        """The trace; one without frames where there is none."""
        return self.outcome if isinstance(self.outcome, Trace) else Trace(self.drawn.program, [])

    @property
    def kind(self) -> str:
        """`ok`, or the kind of the error."""
        return self.outcome.kind if isinstance(self.outcome, ProgramError) else "ok"

    @property
    def answer(self) -> str:
        """What the program's result is, or the exception that it raised; empty where it has none."""
        if not isinstance(self.outcome, Trace):
            return ""
        if self.drawn.answer is not None:
            return self.drawn.answer
        if self.drawn.answer_in_state:
            last = next((frame.locals for frame in reversed(self.outcome.frames) if frame.locals is not None), {})
            return ",".join(f"{name}={value.text}" for name, value in last.items())
        if (at := self.outcome.exception_frame) is not None and (value := self.outcome.frames[at].value) is not None:
            return value.text
        return self.outcome.result.text if self.outcome.result is not None else ""


@dataclass(frozen=True, slots=True)
class Example:
    """One example: its spans, and what is known about it. `slices` are the properties results are broken down by.

    The outcome of a program that could not be traced, or not be written in `reveal.max_tokens`, is not `ok`; its spans are the
    context alone.
    """

    index: int
    split: str
    spans: list[Span]
    frames: list[WrittenFrame]
    """The frames that the spans after the context write."""
    answer: str
    trace: Trace
    identity: str
    """The same for a program however it is written down (format, spacing, encoding, nested or flattened, rewritten)."""
    slices: dict[str, int | str]
    cluster: str
    """What examples that stand or fall together share: executions of one function, or the same program drawn twice."""
    outcome: str = "ok"
    answer_in_state: bool = False
    """Whether the answer is the last state that is shown, since the program returns nothing."""
    reveal: RevealConfig = field(default_factory=RevealConfig)
    """How the trace is written."""
    returns: bool = False
    """Whether the program was known to return before it was run."""

    @property
    def program(self) -> str:
        return self.trace.program.code


def example(data: DataConfig, split: str, index: int) -> Example:
    """The example at one index; see `examples`."""
    return examples(data, split, [index])[0]


def examples(data: DataConfig, split: str, indices: Sequence[int], workers: int = 1) -> list[Example]:
    """The examples at the given indices, each independent of the others. `workers`: sandboxes that run given programs.

    Raises:
        ConfigError: as `executions`, or `reveal.max_tokens` is set, which needs a tokenizer: see `encoded_examples`.
    """
    with collector_paused():
        return [write(execution, data) for execution in executions(data, split, indices, workers)]


def executions(data: DataConfig, split: str, indices: Sequence[int], workers: int = 1) -> list[Execution]:
    """What happened to the program at each index.

    Raises:
        ConfigError: the task has no program of this split, or none at an index.
    """
    task, places = data.task, [int(index) for index in indices]
    with collector_paused():
        drawn = task.draw(split, places, data.seed, data.writes_sessions)
        outcomes = task.execute(drawn, allows_partial_trace(data.reveal), workers)
        done = (Execution(i, split, one, _checked(one, outcome)) for i, one, outcome in zip(places, drawn, outcomes))
        return [_placed(execution, data) for execution in done]


def fit_to_budget(
    execution: Execution, data: DataConfig, count: Callable[[Sequence[Span]], int]
) -> RevealConfig | None:
    """The reveal under which the example has at most `reveal.max_tokens` tokens, as `count` says; None if there is none.

    Without a limit, and for a program that has no trace, it is the configured one.
    """
    if data.reveal.max_tokens is None or execution.kind != "ok":
        return data.reveal
    return densest_reveal(execution.trace, data.reveal, lambda reveal: count(_rendered(execution, data, reveal).spans))


def write(execution: Execution, data: DataConfig, reveal: RevealConfig | None = None) -> Example:
    """The example of an execution. `reveal`: how it is written, by default as configured.

    Raises:
        ConfigError: `reveal.max_tokens` is set and no reveal is given.
    """
    if reveal is None:
        if data.reveal.max_tokens is not None:
            raise ConfigError("data.reveal.max_tokens is in tokens: nothing here knows a tokenizer to count them with")
        reveal = data.reveal
    if execution.kind != "ok":
        return write_context(execution, data, execution.kind)
    if reveal.answer_only and execution.trace.raised:
        return write_context(execution, data, NO_RESULT)
    return _example(execution, data, _rendered(execution, data, reveal), reveal, "ok")


def write_context(execution: Execution, data: DataConfig, outcome: str) -> Example:
    """An example of the context alone, for a program whose trace is not written."""
    whole = _rendered(execution, data, data.reveal)
    given = Rendered([span for span in whole.spans if span.role is Role.CONTEXT], [])
    return _example(execution, data, given, data.reveal, outcome)


def token_arrays(data: DataConfig, split: str, indices: Sequence[int]) -> TokenArrays | None:
    """The examples as ready arrays, where the task makes them without spans; else None."""
    if data.format != "symbolic":
        return None
    return data.task.token_arrays(split, indices, data.seed, data.reveal, data.context)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Traces are many small objects without cycles: looking through them for cycles costs as much as making them.

    Switching the collector on again would look through the whole batch at once; freezing and unfreezing hands it to the
    oldest generation instead, which takes no time (and is left out where the caller has frozen objects of its own).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _placed(execution: Execution, data: DataConfig) -> Execution:
    """The execution of the program where it stands in its file (`first_line`)."""
    if data.first_line == 1:
        return execution
    low, high = data.first_lines()
    drawn = rng.bits(rng.key(execution.drawn.key, rng.FIRST_LINE, 0), 0)
    program = replace(execution.trace.program, first_line=low + rng.below(drawn, high - low + 1))
    outcome = execution.outcome
    if isinstance(outcome, Trace):
        outcome = replace(outcome, program=program)
    return replace(execution, drawn=execution.drawn._replace(program=program), outcome=outcome)


def _checked(drawn: Drawn, outcome: Outcome) -> Outcome:
    """The outcome, or the error that a result is not the expected one."""
    if drawn.expected is None or not isinstance(outcome, Trace):
        return outcome
    given = outcome.result.text if outcome.result is not None else ""
    if same_value(given, drawn.expected):
        return outcome
    name = drawn.program.name
    return ProgramError("mismatch", f"{name}: gave {given:.200}, not {drawn.expected:.200} as its source says")


def _rendered(execution: Execution, data: DataConfig, reveal: RevealConfig) -> Rendered:
    return render(
        execution.trace,
        data.format,
        reveal,
        context=data.context,
        string_encoding=data.string_encoding,
        seed=execution.drawn.key,
    )


def _example(execution: Execution, data: DataConfig, written: Rendered, reveal: RevealConfig, outcome: str) -> Example:
    drawn, trace = execution.drawn, execution.trace
    slices = drawn.slices | {"frame_count": len(trace.frames)}
    if data.reveal.max_tokens is not None:
        slices["reveal"] = describe(reveal) if outcome == "ok" else "none"
    return Example(
        execution.index,
        execution.split,
        *written,
        execution.answer,
        trace,
        drawn.identity,
        slices,
        drawn.identity if drawn.cluster is None else drawn.cluster,
        outcome,
        drawn.answer_in_state,
        reveal,
        drawn.returns,
    )
