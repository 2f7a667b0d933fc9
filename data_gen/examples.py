"""An example is a pure function of (config, split, index).

The content hash of the *program* picks its split: an index whose candidate falls into another split's share draws again,
so splits are disjoint by construction, whatever the format, spacing or encoding a program is written in.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from remedy.data_gen import rng
from remedy.data_gen.execution.pool import Outcome, environment, trace_all
from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.tracer import TraceLimits, trace
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.settings import ConfigError, Settings
from remedy.data_gen.splits import in_split, split_of, text_hash
from remedy.data_gen.tasks import composition, permutation
from remedy.data_gen.tasks import permutation_arrays as symbolic
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.permutation import PermutationBatch, PermutationTask
from remedy.data_gen.tasks.programs import Case, ProgramsTask, split_cases
from remedy.data_gen.traces.budget import densest, describe, may_step_over, shallower
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.data_gen.traces.values import same_value

MAX_ATTEMPTS = 1000

UNWRITTEN = "none"
"""How a program that cannot be written within its budget is written."""

Count = Callable[[Sequence[Span]], int]
"""How many tokens spans have; made by a tokenizer."""


Task = PermutationTask | CompositionTask | ProgramsTask


class DataConfig(Settings):
    """What is generated (`task`) and how it is written down (the rest)."""

    former = {"strings": "string_encoding", "tracer": "task.tracer"}

    task: Annotated[Task, Field(discriminator="kind")]
    """Which programs there are; `kind` chooses the task."""
    format: Literal["cwm", "repl", "symbolic"] = "cwm"
    """The text form of a trace: the code world model's own, a Python session, or one token per variable, value and command."""
    context: bool = True
    """Whether the program precedes its trace (always so in the cwm format)."""
    reveal: RevealConfig = RevealConfig()
    """Which frames are written, which of them show their state, and how."""
    string_encoding: EncodingName = "plain"
    """How string values are written in the trace."""
    seed: int = Field(default=0, ge=0)
    """Chooses the programs, together with the split and the index."""

    @model_validator(mode="after")
    def _context_needed(self) -> DataConfig:
        if self.format == "cwm" and not self.context:
            raise ValueError("the cwm format always shows the program: remove `context: false`")
        if self.task.kind != "permutation" and not self.context:
            raise ValueError(f"task {self.task.kind} needs its program: remove `context: false`")
        if self.reveal.answer_only and self.format != "cwm":
            raise ValueError("reveal.answer_only needs the cwm format, whose return separator asks for the answer")
        return self


@dataclass(frozen=True, slots=True)
class Example:
    """One example: its spans, and what is known about it. `slices` are the properties results are broken down by."""

    index: int
    split: str
    spans: list[Span]
    answer: str
    trace: Trace
    identity: str
    """The same for a program however it is written down (format, spacing, encoding, nested or flattened, rewritten)."""
    slices: dict[str, int | str]
    outcome: str = "ok"

    @property
    def program(self) -> str:
        return self.trace.program.code


def example(config: DataConfig, split: str, index: int, count: Count | None = None) -> Example:
    """The example at one index; see `examples`."""
    return examples(config, split, [index], count)[0]


def examples(
    config: DataConfig, split: str, indices: Sequence[int], count: Count | None = None, workers: int = 1
) -> list[Example]:
    """The examples at the given indices, each independent of the others.

    `count` says how many tokens spans have; `reveal.max_tokens` needs it. `workers`: sandboxes that trace the user's programs.
    The `programs` task has a further split `all`. A program of it that cannot be traced, or written within the budget,
    becomes an example of its context alone, with its `outcome`.

    Raises:
        ConfigError: the task's program space is too small to hold any program of this split, a `programs` source has
            no program at an index, or a budget is set and `count` is missing.
    """
    if config.reveal.max_tokens is not None and count is None:
        raise ConfigError("data.reveal.max_tokens is in tokens: nothing here knows a tokenizer to count them with")
    wanted = np.asarray(indices, dtype=np.int64)
    if isinstance(config.task, PermutationTask):
        keys, batch = _permutations(config, split, wanted)
        return [_permutation_example(config, split, int(i), keys, batch, row, count) for row, i in enumerate(wanted)]
    if isinstance(config.task, ProgramsTask):
        return _program_examples(config, config.task, split, [int(index) for index in wanted], count, workers)
    with _collector_paused():
        return [_composition_example(config, split, int(index), count) for index in wanted]


def token_arrays(config: DataConfig, split: str, indices: Sequence[int]) -> symbolic.TokenArrays | None:
    """Ready arrays of symbolic permutation examples; None where only the span path exists."""
    if not has_token_arrays(config):
        return None
    assert isinstance(config.task, PermutationTask)
    keys, batch = _permutations(config, split, np.asarray(indices, dtype=np.int64))
    return symbolic.batch_arrays(config.task, config.reveal, config.context, batch, keys)


def has_token_arrays(config: DataConfig) -> bool:
    """Whether `token_arrays` covers the config."""
    return isinstance(config.task, PermutationTask) and config.format == "symbolic" and symbolic.supports(config.reveal)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
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


def _permutations(config: DataConfig, split: str, indices: npt.NDArray[np.int64]) -> tuple[rng.U64, PermutationBatch]:
    assert isinstance(config.task, PermutationTask)
    keys = rng.keys(config.seed, split, indices)
    batch = permutation.draw(config.task, keys)
    pending = np.flatnonzero(~_permutations_may(config, split, batch))
    longest = config.task.length_range()[1]
    lengths, values = batch.lengths, batch.values
    moves = np.zeros((len(indices), longest), dtype=np.int64)
    moves[:, : batch.moves.shape[1]] = batch.moves
    for attempt in range(1, MAX_ATTEMPTS):
        if not len(pending):
            return keys, PermutationBatch(lengths, values, moves)
        retry = rng.keys(config.seed, split, indices[pending], attempt)
        again = permutation.draw(config.task, retry)
        found = _permutations_may(config, split, again)
        rows = pending[found]
        keys[rows], lengths[rows], values[rows] = retry[found], again.lengths[found], again.values[found]
        moves[rows, : again.moves.shape[1]] = again.moves[found]
        pending = pending[~found]
    raise _too_small(config, split)


def _permutations_may(config: DataConfig, split: str, batch: PermutationBatch) -> npt.NDArray[np.bool_]:
    """Which programs may be in a split."""
    assert isinstance(config.task, PermutationTask)
    may: npt.NDArray[np.bool_] = in_split(permutation.content_hash(config.task, batch), split)
    if split == "train" and config.task.held_out_lengths:
        may &= ~np.isin(batch.lengths, config.task.held_out_lengths)
    return may


def _composition_may(task: CompositionTask, split: str, composed: composition.Composition) -> bool:
    if split_of(text_hash(composed.identity)) != split:
        return False
    held_out = composed.depth in task.held_out_depths or not set(task.held_out_functions).isdisjoint(composed.functions)
    return not (held_out and split == "train")


def _too_small(config: DataConfig, split: str) -> ConfigError:
    return ConfigError(
        f"data.task ({config.task.kind}): no program of the {split} split found in {MAX_ATTEMPTS} draws; "
        "there are too few different programs: make the task larger (length, n, functions, input_length)"
        ", or hold out less"
    )


def _permutation_example(
    config: DataConfig, split: str, index: int, keys: rng.U64, batch: PermutationBatch, row: int, count: Count | None
) -> Example:
    task = config.task
    assert isinstance(task, PermutationTask)
    session = permutation.session(task, batch, row)
    final = session.frames[-1].locals
    assert final is not None
    answer = ",".join(f"{name}={value.text}" for name, value in final.items())
    traced: Trace = session
    if config.format == "cwm":
        traced = trace(permutation.function(task, batch, row))
    slices: dict[str, int | str] = {"n": task.n, "moves": task.moves, "length": int(batch.lengths[row])}
    return _example(config, split, index, traced, answer, session.program.code, slices, int(keys[row]), count)


def _composition_example(config: DataConfig, split: str, index: int, count: Count | None) -> Example:
    assert isinstance(config.task, CompositionTask)
    for attempt in range(MAX_ATTEMPTS):
        key = rng.key(config.seed, split, index, attempt)
        composed = composition.draw(config.task, rng.Draws(key))
        if _composition_may(config.task, split, composed):
            break
    else:
        raise _too_small(config, split)
    traced = trace(Program(composed.code, f"composition {split}/{index}"), TraceLimits())
    result = traced.result
    assert result is not None
    slices: dict[str, int | str] = {
        "family": config.task.family,
        "depth": composed.depth,
        "flatten": int(config.task.flatten),
        "functions": " ".join(composed.functions),
    }
    return _example(config, split, index, traced, result.text, composed.identity, slices, key, count)


def _program_examples(
    config: DataConfig, task: ProgramsTask, split: str, indices: Sequence[int], count: Count | None, workers: int
) -> list[Example]:
    cases = split_cases(task, split)
    missing = next((index for index in indices if index >= len(cases)), None)
    if missing is not None:
        raise ConfigError(
            f"data.task: {task.benchmark or task.path} has {len(cases)} programs of the {split} split; "
            f"index {missing} was asked for"
        )
    chosen = [cases[index] for index in indices]
    outcomes = trace_all([case.program for case in chosen], task.tracer, workers)
    return [
        _program_example(config, task, split, index, case, outcome, count)
        for index, case, outcome in zip(indices, chosen, outcomes)
    ]


def _program_example(
    config: DataConfig,
    task: ProgramsTask,
    split: str,
    index: int,
    case: Case,
    outcome: Outcome,
    count: Count | None,
) -> Example:
    if may_step_over(config.reveal):
        outcome = shallower(case.program, task.tracer, outcome)
    identity = case.identity
    slices: dict[str, int | str] = {"source": case.id, "python": environment(task.tracer).python}
    if isinstance(outcome, Trace):
        answer = outcome.result.text if outcome.result is not None else ""
        if case.expected is not None and not same_value(answer, case.expected):
            outcome = ProgramError(
                "mismatch", f"{case.id}: gave {answer:.200}, not {case.expected:.200} as its source says"
            )
    if isinstance(outcome, Trace):
        return _example(config, split, index, outcome, answer, identity, slices, text_hash(identity), count)
    whole = config.model_copy(update={"reveal": RevealConfig()})
    if config.reveal.max_tokens is not None:
        slices["reveal"] = UNWRITTEN
    return _context_alone(
        _example(whole, split, index, Trace(case.program, []), "", identity, slices, 0, None), outcome.kind
    )


def _context_alone(whole: Example, outcome: str) -> Example:
    given = [span for span in whole.spans if span.role is Role.CONTEXT]
    return replace(whole, spans=given, outcome=outcome)


def example_count(config: DataConfig, split: str) -> int | None:
    """How many examples a split has; None where they never end."""
    return len(split_cases(config.task, split)) if isinstance(config.task, ProgramsTask) else None


def _example(
    config: DataConfig,
    split: str,
    index: int,
    traced: Trace,
    answer: str,
    identity: str,
    slices: dict[str, int | str],
    key: int,
    count: Count | None,
) -> Example:
    def written(reveal: RevealConfig) -> list[Span]:
        return render(traced, config.format, reveal, context=config.context, strings=config.string_encoding, seed=key)

    slices = slices | {"frame_count": len(traced.frames)}
    if config.reveal.max_tokens is None or count is None:
        return Example(index, split, written(config.reveal), answer, traced, identity, slices)
    chosen = densest(traced, config.reveal, lambda reveal: count(written(reveal)))
    if chosen is None:
        whole = Example(index, split, written(config.reveal), answer, traced, identity, slices | {"reveal": UNWRITTEN})
        return _context_alone(whole, "budget")
    return Example(index, split, written(chosen), answer, traced, identity, slices | {"reveal": describe(chosen)})
