"""A model's trace of one program, and what is said of it. The program is run only to check what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from remedy.data_gen.config import DataConfig, read_stored_run
from remedy.data_gen.examples import Example, Execution, fit_to_budget, write
from remedy.data_gen.execution.program import Event, Program, ProgramError, Trace
from remedy.data_gen.prompts import prompt_spans
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.splits import ALL, text_hash
from remedy.data_gen.tasks.task import Drawn
from remedy.data_gen.traces.budget import allows_partial_trace
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.marks import draw_marks
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import no_data
from remedy.eval.decoding.constraints import starts_of
from remedy.eval.decoding.forcings import FREE
from remedy.eval.decoding.protocol import TokenListener, ignore_token
from remedy.eval.generators import Generator, LocalGenerator, Request, ServedGenerator, Writing, Written
from remedy.eval.generators.backend import Backend
from remedy.eval.records.generations import Generation, generation
from remedy.eval.records.schema import Score
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.reading import generated_places
from remedy.eval.view.model import View, visible
from remedy.eval.view.records import alone, compared
from remedy.messages import cut
from remedy.models.model_manifest import CONFIG_FILE
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import ConfigError, Settings, UserError, apply_changes, build, parse_overrides

LONGEST = 480
"""Characters of what is said of one thing."""


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
    """Trace of a program as a model wrote it: `frames` and, where the truth is known, the true ones, in full; `problem`: why it is no
    whole trace; `kept`: what an evaluation keeps of it; `score`: None where the truth is not known."""

    written: Written
    frames: Sequence[ReadFrame | None]
    true: Sequence[ReadFrame | None]
    problem: str
    kept: Generation
    score: Score | None

    @property
    def asked(self) -> int:
        """Tokens that the model wrote."""
        return sum(run.asked for run in self.written.runs)

    @property
    def fed(self) -> int:
        """Tokens that were certain."""
        return len(self.kept["ids"]) - self.asked

    @property
    def answer(self) -> str:
        """The value that it says is returned or raised; empty where it does not come to that."""
        match () if self.problem else tuple(self.frames):
            case [*_, ReadFrame(event=Event.EXCEPTION, value=str(raised)), ReadFrame(event=Event.RETURN, value="None")]:
                return raised
            case [*_, ReadFrame(value=str(returned))]:
                return returned
        return ""


def data_of(checkpoint: str, program: Program, changes: dict[str, Any]) -> DataConfig:
    """Return how the trace of a program is written: as those that the checkpoint was trained on, with changes (`{"reveal.locals":
    "diff"}`).

    Raises:
        ConfigError: the checkpoint stores nothing and no format is named, a change is of other programs, or the result does not
            validate or cannot be simulated.
    """
    stored = read_stored_run(Path(checkpoint) / CONFIG_FILE)["data"]
    if not stored and "format" not in changes:
        raise ConfigError(
            f"{no_data(checkpoint)}: say how its traces are written, for example data.format=cwm data.reveal.locals=diff"
        )
    form = FORMATS.find(str(changes.get("format", stored.get("format"))))
    if form is not None and form.one_token:
        raise ConfigError(
            f"{checkpoint}: its data.format, symbolic, writes sessions of single symbols, and no trace of a program: simulate with a "
            "model of another format"
        )
    for key in changes:
        if key == "seed" or (key.split(".")[0] == "task" and not key.startswith("task.tracer.")):
            raise ConfigError(f"data.{key}: does nothing here, where the program is given: remove it")
    task = stored.get("task")
    tracer = task.get("tracer", {}) if isinstance(task, dict) else {}
    own = {"kind": "programs", "path": program.name, "tracer": tracer}
    about = {key: value for key, value in stored.items() if key != "seed"} | {"task": own}
    data = build(DataConfig, apply_changes(about, changes, "data"), f"data of {checkpoint}")
    if (
        any(key.split(".")[0] == "memory" for key in changes)
        and data.memory
        and data.memory.frames < data.reveal.spacing
    ):
        raise ConfigError(
            f"data.memory {data.memory}: with a state in every {data.reveal.spacing:g} frames (data.reveal.spacing) none may be in "
            "sight: give more, or states more often"
        )
    return data


def prepared(program: Program, data: DataConfig, tokenizer: TraceTokenizer, run: bool = False) -> Prepared:
    """The program's prompt, made from its text alone. `run`: its true trace too, from a run in the sandbox.

    Raises:
        UserError: as `prompt_spans`; or no sandbox can be started.
    """
    if isinstance(data.reveal.at, float):
        program = draw_marks(program, data.reveal.at, text_hash(program.code))
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
    listener: TokenListener = ignore_token,
) -> Simulation:
    """Have a model write the program's trace. `listener` is told each token.

    Raises:
        UserError: the program's control flow cannot be read, or the prompt has more tokens than the model reads.
    """
    example = program.example
    length = program.truth.roles.count(Role.CONTEXT)
    if generator.limit is not None and length > generator.limit:
        raise UserError(f"{generator.name}: reads {generator.limit:,} tokens, and the program's prompt has {length:,}")
    writing = Writing(FREE, False, max_new_tokens, memory=data.memory, constraint=constraint)
    [start] = starts_of(constraint, [example], data, tokenizer) if constraint else [None]
    [written] = generator.generate([Request(program.truth, start, listener)], writing)
    decoded = Decoded(example, program.truth, written.runs, FREE, data)
    ids = decoded.written(written.runs)
    read = FORMATS[data.format].read(tokenizer.pieces(ids), data.reveal.answer_only)
    about = (generated_places(decoded, tokenizer), tokenizer, program.truth, written.near_ties)
    kept = generation(0, tokenizer.decode(ids), written.runs, *about)
    true = decoded.in_full([frame.as_read(data.string_encoding) for frame in example.frames])
    score = score_frames(decoded, tokenizer) if program.known else None
    problem = "" if read.valid else read.problem or "the end is missing"
    return Simulation(written, decoded.in_full(read.frames), true, problem, kept, score)


def first_written(data: DataConfig) -> int:
    """The number in the trace of the first frame that a model writes: the prompt may give one."""
    form = FORMATS[data.format]
    return int(isinstance(form, Cwm) and form.seeded)


def simulation_view(found: Simulation, data: DataConfig, title: str, facts: dict[str, str]) -> View:
    """The whole, beside the truth where that is known."""
    if found.score is None:
        return View(title, alone(found.kept, first_written(data)), facts, "written")
    return View(title, compared(found.kept, found.score["first_error_frame"]), facts, "written")


def opening(program: Prepared, data: DataConfig, checkpoint: str, constraint: str, served: bool) -> dict[str, str]:
    """Say what is simulated, and how, and whether it was run."""
    how = [f"format {data.format}", f"locals {data.reveal.locals}", f"spacing {data.reveal.spacing:g}"]
    how += [f"at {data.reveal.at}"] if data.reveal.at is not None else []
    how += [f"memory {data.memory}"] if data.memory is not None else []
    how += [f"strings {data.string_encoding}"] if data.string_encoding != "plain" else []
    how += [f"held to {constraint}"] if constraint else []
    run = "not run" if not program.problem else f"not checked: {program.problem}"
    unknown = "where several tokens were allowed a server does not tell how likely its choice was, nor what was cut"
    found = {
        "program": program.example.trace.program.name,
        "model": checkpoint,
        "trace": ", ".join(how),
        "truth": "from a run, frames are compared with it" if program.known else run,
        "unknown": unknown if served and constraint else "",
    }
    return {name: visible(text) for name, text in found.items() if text}


def summary(found: Simulation, calls: int, seconds: float) -> dict[str, str]:
    """Say what became of the whole."""
    frames = len(found.frames)
    written = f"{found.asked:,} tokens written" + (f", {found.fed:,} were certain" if found.fed else "")
    ties = f", {found.written.near_ties} near ties" if found.written.near_ties else ""
    said = {"wrote": f"{frames:,} frame{'s' * (frames != 1)}, {written}, {calls:,} model calls, {seconds:.1f} s{ties}"}
    if not found.problem:
        said["answer"] = found.answer or "none"
    elif found.written.runs and not found.written.runs[-1].complete:
        said["no answer"] = "the limit on tokens came first"
    else:
        said["no answer"] = found.problem
    if found.score is not None:
        said |= _verdict(found, found.score)
    return {name: visible(cut(text, LONGEST)) for name, text in said.items()}


def _verdict(found: Simulation, score: Score) -> dict[str, str]:
    """Say if it is right, or where it first differs, and in what."""
    answer, place, number = "right" if score["right"] else "wrong", score["frames_right"], score["first_error_frame"]
    if number < 0:
        return {"checked": f"every frame is right, and the answer is {answer}"}
    written, true = (frames[place] if place < len(frames) else None for frames in (found.frames, found.true))
    said = {
        "checked": f"the answer is {answer}; first error at frame {number} ({score['first_error_role']})",
        "written": _described(written, found.problem),
        "true": _described(true),
    }
    return said if score["right"] else {**said, "the true answer": score["true_answer"]}


def _described(frame: ReadFrame | None, problem: str = "") -> str:
    """A frame in full on one line; `problem`: why there is none, if it is not that the trace ends."""
    if frame is None:
        return problem or "the end"
    state = ", ".join(f"{name} = {text}" for name, text in (frame.locals or {}).items())
    parts = (
        frame.event.value if frame.event is not None else "",
        frame.source.strip(),
        f"with {state}" if state else "",
        f"-> {frame.value}" if frame.value is not None else "",
    )
    return " ".join(filter(None, parts))


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
        begin = served.server.asked
        yield served, lambda: served.server.asked - begin
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
