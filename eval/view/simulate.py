"""A model's trace of one program, frame by frame as it is written. The program is run only to check what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, Execution, fit_to_budget, write
from remedy.data_gen.execution.program import Event, Program, ProgramError, Trace
from remedy.data_gen.prompts import prompt_spans
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.splits import ALL, text_hash
from remedy.data_gen.tasks.task import Drawn
from remedy.data_gen.traces.budget import allows_partial_trace
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.judge import same_frame
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import no_data, stored_settings
from remedy.eval.control_flow import ControlFlowError
from remedy.eval.control_flow.evaluator.contradiction import Check
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.decoding.forcings import FREE
from remedy.eval.decoding.guided import check_states
from remedy.eval.diagnostics.condition import refuse_blind
from remedy.eval.generators import Generator, LocalGenerator, Request, ServedGenerator, Writing, Written
from remedy.eval.generators.backend import Backend
from remedy.eval.records.schema import Score
from remedy.eval.scoring.actions import known_of
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.frames import score_frames
from remedy.eval.view.frames import Following, FrameStream, ModelFrame
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import ConfigError, Settings, UserError, apply_changes, build, parse_overrides


class SimulateConfig(Settings):
    """Settings of `remedy simulate` beside `data.*`: who runs the model."""

    backend: Backend | None = None
    """A server that runs the model, as in an evaluation."""


class Prepared(NamedTuple):
    """A program to be simulated."""

    example: Example
    """Its context and, if it was run, its true trace; the outcome is `ok`, `not run`, or why it has none."""
    truth: Encoded
    """The context and the true trace; if that is not known, the end alone after the context."""
    problem: str = ""
    """Why it has no true trace although it was run."""

    @property
    def known(self) -> bool:
        return self.example.outcome == "ok"


NOT_RUN = "not run"
"""The outcome of a program that nobody ran."""


class Simulation(NamedTuple):
    """Trace of a program as a model wrote it."""

    frames: list[ModelFrame]
    written: Written
    ended: bool
    """Whether it reads as a whole trace."""
    answer: str
    """What it says that the program returns or raises; empty where it does not come to that."""
    truth: Sequence[ReadFrame | None]
    """The true frames in full at the places of the written ones; empty where they are not known."""
    score: Score | None
    """Where the truth is known."""

    @property
    def asked(self) -> int:
        """Tokens that the model wrote."""
        return sum(run.asked for run in self.written.runs)

    @property
    def fed(self) -> int:
        """Tokens that were certain."""
        return sum(len(run.ids) - run.asked for run in self.written.runs)


def data_of(checkpoint: str, program: Program, changes: dict[str, Any]) -> DataConfig:
    """Return how the trace of a program is written: as those that the checkpoint was trained on, with changes (`{"reveal.locals":
    "diff"}`).

    Raises:
        ConfigError: the checkpoint stores nothing and no format is named, a change is of other programs, or the result does not
            validate or cannot be simulated.
    """
    stored = stored_settings(checkpoint).get("data", {})
    if not stored and "format" not in changes:
        raise ConfigError(
            f"{no_data(checkpoint)}: say how its traces are written, for example data.format=cwm data.reveal.locals=diff"
        )
    for key in changes:
        if key == "seed" or (key.split(".")[0] == "task" and not key.startswith("task.tracer.")):
            raise ConfigError(f"data.{key}: does nothing here, where the program is given: remove it")
    task = stored.get("task", {})
    # Whoever trusted the programs of a training trusts no other's.
    tracer = {key: value for key, value in task.get("tracer", {}).items() if key != "isolation"}
    own = {"kind": "programs", "path": program.name, "tracer": tracer}
    about = {key: value for key, value in stored.items() if key != "seed"} | {"task": own}
    data = build(DataConfig, apply_changes(about, changes, "data"), f"data of {checkpoint}")
    if FORMATS[data.format].one_token:
        raise ConfigError(
            f"data.format {data.format}: has no end of its own, so that nothing can be written freely in it: simulate with a model "
            "of another format"
        )
    if any(key.split(".")[0] == "memory" for key in changes):
        refuse_blind(data.memory, data)
    return data


def prepared(program: Program, data: DataConfig, tokenizer: TraceTokenizer, run: bool = False) -> Prepared:
    """The program's prompt, made from its text alone. `run`: its true trace too, from a run in the sandbox.

    Raises:
        UserError: as `prompt_spans`; or no sandbox can be started.
    """
    context = prompt_spans(program, data)
    example = Example(
        0, ALL, context, [], "", Trace(program, []), program.code, {}, program.code, NOT_RUN, reveal=data.reveal
    )
    found = Prepared(example, tokenizer.encode([*context, Span(Role.STRUCTURE, Special.END_OF_TEXT, 0)]))
    if not run:
        return found
    drawn = Drawn(program, program.code, text_hash(program.code), {})
    [outcome] = data.task.execute([drawn], allows_partial_trace(data.reveal), 1)
    if isinstance(outcome, ProgramError):
        return found._replace(problem=str(outcome))
    execution = Execution(0, ALL, drawn, outcome)
    reveal = fit_to_budget(execution, data, tokenizer.count)
    if reveal is None:
        return found._replace(problem=f"its true trace has more than reveal.max_tokens {data.reveal.max_tokens} tokens")
    true = write(execution, data, reveal)
    if true.outcome != "ok":
        return found._replace(problem="it raised, and has no answer")
    assert [span for span in true.spans if span.role is Role.CONTEXT] == context, "a prompt is not that of the run"
    return Prepared(true, tokenizer.encode(true.spans))


def simulate(
    generator: Generator,
    tokenizer: TraceTokenizer,
    program: Prepared,
    data: DataConfig,
    constraint: str = "",
    max_new_tokens: int = 4096,
    show: Callable[[ModelFrame], None] = lambda frame: None,
) -> Simulation:
    """Have a model write the program's trace. `show` is told each frame as soon as it is closed.

    Raises:
        UserError: the program's control flow cannot be read, or the prompt has more tokens than the model reads.
    """
    example = program.example
    length = program.truth.roles.count(Role.CONTEXT)
    if generator.limit is not None and length > generator.limit:
        raise UserError(f"{generator.name}: reads {generator.limit:,} tokens, and the program's prompt has {length:,}")
    stream = FrameStream(tokenizer, data.format, data.reveal.answer_only)
    check, _ = contradictions(example, data)
    following, frames = Following(check), list[ModelFrame]()
    spelled = [frame.as_read(data.string_encoding) for frame in example.frames]
    true = Decoded(example, program.truth, [], FREE, data).in_full(spelled) if program.known else []

    def take(closed: Sequence[ModelFrame]) -> None:
        for frame in closed:
            found = following.take(frame)
            judged = program.known and not any(earlier.wrong for earlier in frames)
            frames.append(found._replace(wrong=judged and not _is_true(found, true)))
            show(frames[-1])

    writing = Writing(FREE, False, max_new_tokens, memory=data.memory, constraint=constraint)
    [start] = starts_of(constraint, [example], data, tokenizer) if constraint else [None]
    request = Request(program.truth, start, lambda *token: take(stream.take(*token)))
    [written] = generator.generate([request], writing)
    take(stream.rest())
    score = None
    if program.known:
        score = score_frames(Decoded(example, program.truth, written.runs, FREE, data), tokenizer)
    read = [frame.full for frame in frames if frame.full is not None]
    return Simulation(frames, written, stream.ended, _answer(read) if stream.ended else "", true, score)


def first_written(data: DataConfig) -> int:
    """The number in the trace of the first frame that a model writes: the prompt may give one."""
    form = FORMATS[data.format]
    return int(isinstance(form, Cwm) and form.seeded)


def contradictions(example: Example, data: DataConfig) -> tuple[Check | None, str]:
    """Return what finds lines that a trace's own states do not lead to, or why nothing can."""
    try:
        known = known_of(example, data)
        check_states(example.reveal, data.string_encoding)
    except (ControlFlowError, ProgramError) as error:
        return None, str(error)
    return Check(known.flow, **known.options), ""


def _is_true(frame: ModelFrame, true: Sequence[ReadFrame | None]) -> bool:
    """Compare a frame with the true one at its place, or the end with the true end."""
    other = true[frame.number] if frame.number < len(true) else None
    if frame.full is None or other is None:
        return frame.is_end and frame.number == len(true)
    return same_frame(frame.full, other)


def _answer(frames: Sequence[ReadFrame]) -> str:
    """Return what a whole trace says that its program returns, or raises."""
    match frames:
        case [*_, ReadFrame(event=Event.EXCEPTION, value=str(raised)), ReadFrame(event=Event.RETURN, value="None")]:
            return raised
        case [*_, ReadFrame(value=str(returned))]:
            return returned
    return ""


def read_words(words: Sequence[str]) -> tuple[dict[str, Any], SimulateConfig]:
    """The command's `key=value` words: changes of the data without their `data.`, and the rest.

    Raises:
        ConfigError: a word is not of this form, or no setting.
    """
    changes = parse_overrides(words)
    data = {key.removeprefix("data."): value for key, value in changes.items() if key.startswith("data.")}
    rest = {key: value for key, value in changes.items() if not key.startswith("data.")}
    known = {*DataConfig.model_fields} - {"task", "seed"}
    if bare := next((key for key in rest if key.split(".")[0] in known), None):
        raise ConfigError(f"override {bare}: is of the data: write data.{bare}")
    return data, build(SimulateConfig, apply_changes({}, rest, "override"))


@contextmanager
def generating(
    model: CausalLM, tokenizer: TraceTokenizer, name: str, backend: Backend | None
) -> Iterator[tuple[Generator, Callable[[], int]]]:
    """Return what writes the trace, and how often the model was asked so far."""
    if backend is not None:
        served = ServedGenerator(backend, tokenizer, name, 1)
        yield served, lambda: sum(served.asked.values())
        return
    reader = ModelReader(model, name)
    reader.report()  # it is measured now, and what that takes is no part of the trace
    count = [0]

    def called(*_: object) -> None:
        count[0] += 1

    hook = model.register_forward_pre_hook(called)  # type: ignore[attr-defined]
    try:
        yield LocalGenerator(reader, tokenizer, 1), lambda: count[0]
    finally:
        hook.remove()
