"""Examples as pure functions of (configuration with its tokenizer, split, index).

The hash of a program picks its split, so splits are disjoint in every format and encoding: an index whose candidate is of
another split draws again.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import repeat

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.splits import ALL
from remedy.data_gen.tasks import Drawn
from remedy.data_gen.tasks.task import Task, TokenArrays
from remedy.data_gen.traces.budget import allows_partial_trace, densest_reveal, describe
from remedy.data_gen.traces.frames import Rendered, WrittenFrame
from remedy.data_gen.traces.marks import MARK, draw_marks
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import encoded_source
from remedy.data_gen.traces.values import same_value
from remedy.settings import ConfigError, UserError

OVER_BUDGET = "budget"
"""Outcome of a program whose trace has too many tokens under any reveal."""
NO_RESULT = "raised"
"""Outcome of a program that raised, where the returned value alone is asked for."""
NOT_RUN = ProgramError("not run", "not run")
"""Outcome of a program that is only drawn."""
Count = Callable[[Sequence[Span]], int]
"""Number of tokens of spans."""
SAMPLE, TRIED, LISTED = 50, 300, 8
"""Given programs tried before an experiment, and failures listed, at most."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Program at an index, with its trace or the reason why there is none."""

    index: int
    split: str
    drawn: Drawn
    outcome: Outcome

    @property
    def trace(self) -> Trace:
        """Return the trace, without frames if there is none."""
        return self.outcome if isinstance(self.outcome, Trace) else Trace(self.drawn.program, [])

    @property
    def kind(self) -> str:
        """Return `ok`, or the kind of the error."""
        return self.outcome.kind if isinstance(self.outcome, ProgramError) else "ok"

    @property
    def answer(self) -> str:
        """Return the program's result or exception as text, or ""."""
        if not isinstance(self.outcome, Trace):
            return ""
        if self.drawn.answer is not None:
            return self.drawn.answer
        if self.drawn.answer_in_state:
            last = next((frame.locals for frame in reversed(self.outcome.frames) if frame.locals is not None), {})
            return ",".join(f"{name}={value.text}" for name, value in last.items())
        if (number := self.outcome.exception_frame) is not None and (
            value := self.outcome.frames[number].value
        ) is not None:
            return value.text
        return self.outcome.result.text if self.outcome.result is not None else ""


@dataclass(frozen=True, slots=True)
class Example:
    """Written example.

    `slices`: properties that results are broken down by. If the outcome is not `ok`, the spans are the context alone.
    """

    index: int
    split: str
    spans: list[Span]
    frames: list[WrittenFrame]
    """Frames written by the spans after the context."""
    answer: str
    trace: Trace
    identity: str
    """The same for a program in every format, spacing, encoding, form and rewrite."""
    slices: dict[str, int | str]
    cluster: str
    """The same for dependent examples: executions of one function, or one program drawn twice."""
    outcome: str = "ok"
    answer_in_state: bool = False
    """Whether the answer is the last shown state, since the program returns nothing."""
    reveal: RevealConfig = field(default_factory=RevealConfig)
    """How the trace is written."""
    returns: bool = False
    """Whether the program was known to return before it was run."""

    @property
    def program(self) -> str:
        return self.trace.program.code


def example(data: DataConfig, split: str, index: int) -> Example:
    return examples(data, split, [index])[0]


def examples(
    data: DataConfig, split: str, indices: Sequence[int], workers: int = 1, count: Count | None = None
) -> list[Example]:
    """Make the examples at indices.

    Raises:
        ConfigError: as `executions` and `write`.
    """
    with collector_paused():
        return [write(execution, data, count) for execution in executions(data, split, indices, workers)]


def executions(
    data: DataConfig, split: str, indices: Sequence[int], workers: int = 1, run: bool = True
) -> list[Execution]:
    """Execute the program at each index; not `run`: only draw it.

    Raises:
        ConfigError: the task has no program of this split, or none at an index; or none has marks, which `reveal.at` needs.
    """
    task, positions = data.task, [int(index) for index in indices]
    if data.reveal.at == "marks" and not task.has_marks():
        raise ConfigError(
            f"data.reveal.at marks: no line of {task.name} ends in `{MARK}` (rewrites drop comments): mark some, or give the share of "
            "lines to mark (0.25)"
        )
    with collector_paused():
        drawn = [_marked(item, data) for item in task.draw(split, positions, data.seed, data.writes_sessions)]
        outcomes = task.execute(drawn, allows_partial_trace(data.reveal), workers) if run else repeat(NOT_RUN)
        drawn_executions = (
            Execution(i, split, item, _checked(item, outcome)) for i, item, outcome in zip(positions, drawn, outcomes)
        )
        return [_numbered(_encoded(execution, data), data) for execution in drawn_executions]


@lru_cache(maxsize=24)
def untraced(task: Task) -> tuple[str, ...]:
    """Trace a sample of given programs; return lines on those without a trace.

    Raises:
        UserError: none has a trace, or no sandbox can be started.
    """
    count = task.count(ALL) or 0
    sample = executions(DataConfig(task=task), ALL, range(0, count, -(-count // TRIED) or 1))
    problems = [f"{execution.kind}: {execution.outcome}" for execution in sample if execution.kind != "ok"]
    tried = (
        f"{len(sample)} programs" if len(sample) == count else f"{len(sample)} programs that were tried, of {count:,},"
    )
    summary = f"{task.name}: {len(problems)} of {tried} have no trace"
    lines = (f"{summary}; correct them, or they are left out:", *problems[:LISTED])
    if sample and len(problems) == len(sample):
        raise UserError("\n".join(lines))
    return lines if problems else ()


def write(execution: Execution, data: DataConfig, count: Count | None = None) -> Example:
    """Write an execution's example in the densest reveal within `reveal.max_tokens`.

    `count`: counts the tokens of spans. Without a trace that fits, the context is written alone.

    Raises:
        ConfigError: `reveal.max_tokens` is set and `count` is not given.
    """
    outcome, limited = execution.kind, data.reveal.max_tokens is not None
    if limited and count is None:
        raise ConfigError("data.reveal.max_tokens is in tokens: nothing here knows a tokenizer to count them with")
    fitting: RevealConfig | None = data.reveal
    if count is not None and limited and outcome == "ok":
        # As the settings refuse: no text to ask for it, or a memory that goes by returns.
        open_calls = data.memory is not None and data.memory.open_calls
        leaves_out = not (FORMATS[data.format].one_token or open_calls)
        fitting = densest_reveal(
            execution.trace, data.reveal, lambda reveal: count(_rendered(execution, data, reveal).spans), leaves_out
        )
    if fitting is None:
        outcome = OVER_BUDGET
    elif outcome == "ok" and fitting.answer_only and execution.trace.raised:
        outcome = NO_RESULT
    reveal = fitting if fitting is not None and outcome == "ok" else data.reveal
    written = _rendered(execution, data, reveal)
    if outcome != "ok":
        written = Rendered([span for span in written.spans if span.role is Role.CONTEXT], [])
    drawn, trace = execution.drawn, execution.trace
    slices = {**drawn.slices, **data.task.slices_of(trace), "frame_count": len(trace.frames)}
    if limited:
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


def token_arrays(data: DataConfig, split: str, indices: Sequence[int]) -> TokenArrays | None:
    """Make examples as arrays, if the task can, or return None."""
    if data.format != "symbolic" or data.reveal.max_tokens is not None:
        return None
    return data.task.token_arrays(split, indices, data.seed, data.reveal, data.context)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector."""
    # Traces are many objects without cycles.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.collect(0)  # what traced programs leave behind: trace functions and modules refer to themselves
            # Else the collector would look through the whole batch at once: this hands it to the oldest generation, in no time.
            # A caller's own frozen objects would be unfrozen too, so that it is not done then.
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _marked(drawn: Drawn, data: DataConfig) -> Drawn:
    share = data.reveal.at
    if not isinstance(share, float):
        return drawn
    among = None if drawn.trace is None else [frame.line for frame in drawn.trace.frames if frame.source]
    program = draw_marks(drawn.program, share, drawn.key, among)
    return drawn._replace(program=program, trace=drawn.trace and _with_lines(drawn.trace, program))


def _encoded(execution: Execution, data: DataConfig) -> Execution:
    if not data.encode_source:
        return execution
    program = execution.drawn.program
    return _with_program(execution, replace(program, code=encoded_source(program.code, data.string_encoding)))


def _numbered(execution: Execution, data: DataConfig) -> Execution:
    if data.first_line == 1:
        return execution
    low, high = data.first_lines()
    drawn = rng.bits(rng.key(execution.drawn.key, rng.FIRST_LINE, 0), 0)
    first_line = low + rng.below(drawn, high - low + 1)
    return _with_program(execution, replace(execution.drawn.program, first_line=first_line))


def _with_program(execution: Execution, program: Program) -> Execution:
    outcome = execution.outcome
    outcome = _with_lines(outcome, program) if isinstance(outcome, Trace) else outcome
    return replace(execution, drawn=execution.drawn._replace(program=program), outcome=outcome)


def _with_lines(trace: Trace, program: Program) -> Trace:
    """Return the trace of a program whose lines are written anew."""
    lines = program.physical_lines()
    frames = [replace(frame, source=lines[frame.line - 1]) if frame.source else frame for frame in trace.frames]
    return replace(trace, program=program, frames=frames)


def _checked(drawn: Drawn, outcome: Outcome) -> Outcome:
    if drawn.expected is None or not isinstance(outcome, Trace):
        return outcome
    result = outcome.result.text if outcome.result is not None else ""
    if same_value(result, drawn.expected):
        return outcome
    name = drawn.program.name
    return ProgramError("mismatch", f"{name}: gave {result:.200}, not {drawn.expected:.200} as its source says")


def _rendered(execution: Execution, data: DataConfig, reveal: RevealConfig) -> Rendered:
    return render(
        execution.trace,
        data.format,
        reveal,
        context=data.context,
        string_encoding=data.string_encoding,
        seed=execution.drawn.key,
    )
