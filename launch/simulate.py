"""`remedy simulate`: a model's trace of a user's program, as it is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from remedy.data_gen.config import DataConfig
from remedy.data_gen.prompts import prompt_spans, read_program
from remedy.eval.calibration.calibrator import RISK, Belief, Follower, Identity, Trust, identity_of
from remedy.eval.checkpoint import describe
from remedy.eval.decoding.forcings import CONSTRAINED
from remedy.eval.diagnostics.condition import written_labels
from remedy.eval.generators import Generator, LocalGenerator, ServedGenerator
from remedy.eval.generators.backend import Backend
from remedy.eval.records.model_frames import ModelFrame
from remedy.eval.simulate import (
    Prepared,
    check_constraint,
    contradictions,
    data_of,
    first_written,
    prepared,
    read_words,
)
from remedy.eval.simulate import simulate as write_trace
from remedy.eval.view.model import visible
from remedy.eval.view.page import page
from remedy.eval.view.simulation import Screen, summary
from remedy.eval.view.simulation_page import simulation_view
from remedy.files import replace_file
from remedy.messages import suggest
from remedy.models.loading import load_checkpoint, load_outline
from remedy.models.model_manifest import recorded_weights
from remedy.models.protocol import CausalLM
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import ConfigError


def simulate(
    checkpoint: str,
    file: Path,
    words: Sequence[str],
    arguments: str | None,
    check: bool,
    constrain: str,
    memory: int | None,
    max_new_tokens: int,
    html: Path | None,
    console: Console,
    trust: Path | None = None,
    risk: float | None = None,
) -> None:
    """Print what a model writes as the trace of a program. `words`: `data.*` and `backend.*` settings; `arguments`: of the program's
    `f`, if it marks no entry point; `check`: run the program too; `trust`: the file of a calibrator, at a `risk`.

    Raises:
        UserError: the program, a setting or the checkpoint cannot be used.
        ProgramError: the program marks no function that can be an entry point.
    """
    if constrain and constrain not in CONSTRAINED:
        raise ConfigError(f"--constrain {constrain!r}: {suggest(constrain, sorted(CONSTRAINED))}")
    if risk is not None and trust is None:
        raise ConfigError("--risk does nothing without --trust: add it, or remove this")
    calibrator = Trust.load(trust) if trust is not None else None
    follower = calibrator.follow(RISK if risk is None else risk) if calibrator is not None else None
    program = read_program(file, arguments)
    changes, config = read_words(words)
    if memory is not None:
        if any(key.split(".")[0] == "memory" for key in changes):
            raise ConfigError("--memory and data.memory are one setting: give it once")
        changes["memory"] = memory
    data = data_of(checkpoint, program, changes)
    if constrain:
        check_constraint(constrain, data)
    prompt_spans(program, data)  # what is wrong with the program is said before weights are loaded
    model, tokenizer = load_outline(checkpoint) if config.backend else load_checkpoint(checkpoint)
    if calibrator is not None:
        calibrator.check(written_by(model, tokenizer, checkpoint, config.backend, data, constrain), checkpoint)
        if config.backend and constrain:
            calibrator.check_served()
    with generating(model, tokenizer, checkpoint, config.backend) as (generator, calls):
        found = prepared(program, data, tokenizer, check)
        first = first_written(data)
        screen = Screen(console, tokenizer, first)
        for line in opening(checkpoint, found, data, constrain, config.backend is not None):
            screen.say(line)
        screen.legend()
        believing = Believing(follower, contradictions(found.example, data)[0] is not None) if follower else None

        def show(frame: ModelFrame) -> None:
            screen.frame(frame, believing.take(frame) if believing is not None else None)

        begin, before = time.perf_counter(), calls()
        simulation = write_trace(generator, tokenizer, found, data, constrain, max_new_tokens, show)
        said = list(summary(simulation, first, calls() - before, time.perf_counter() - begin))
    said += [believing.said(first)] if believing is not None else []
    screen.say("")
    for line in said:
        screen.say(line)
    if html is not None:
        about = {"model": checkpoint, "how": how_written(data, constrain), "wrote": said[0]}
        about |= {key: value for key, _, value in (line.strip().partition(": ") for line in said[1:])}
        view = simulation_view(simulation, found, data, tokenizer, f"{program.name}, simulated", about)
        text = page(view)
        replace_file(html, lambda partial: partial.write_text(text, encoding="utf-8"))
        screen.say(f"page: {html}")


class Believing:
    """How far a trace is believed while it is written. `followed`: whether it would be known that it contradicts itself."""

    def __init__(self, follower: Follower, followed: bool) -> None:
        self._follower = follower
        self._followed = followed
        self._last: int | None = None
        self._all = True

    def take(self, frame: ModelFrame) -> Belief | None:
        """What is thought of the trace up to this frame; None where the model wrote nothing of it, or it is no frame."""
        if frame.problem:
            # Whatever its signals say: they were learnt of frames, and this one is none, or not a whole one.
            self._all = False
            return None
        doubt = frame.doubt
        belief = self._follower.take(doubt, bool(frame.contradiction) if self._followed else None) if doubt else None
        if self._follower.believed and frame.read is not None:
            self._last = frame.number
        self._all &= self._follower.believed
        return belief

    def said(self, first: int) -> str:
        """The frames that are believed, in a sentence, and what that means. `first`: as of `Screen`."""
        last = "no frame" if self._last is None else f"frames up to {first + self._last}"
        share = f"{1 - self._follower.risk:.0%} of traces or more"
        claim = f"of programs like those of the calibration, what is believed is right in {share}"
        return f"believed: {'all of it' if self._all else last} ({claim})"


def written_by(
    model: CausalLM,
    tokenizer: TraceTokenizer,
    checkpoint: str,
    backend: Backend | None,
    data: DataConfig,
    constraint: str,
) -> Identity:
    """What a trace written here is of, as an evaluation's conditions say it."""
    served = f"served: {backend.model}" if backend is not None else ""
    about = describe(model, tokenizer, recorded_weights(Path(checkpoint)) or served)
    labels = {**written_labels(data), "forcing": constraint or "free"}
    return identity_of({"checkpoint": about, "data": {"memory": data.memory}}, labels)


@contextmanager
def generating(
    model: CausalLM, tokenizer: TraceTokenizer, name: str, backend: Backend | None
) -> Iterator[tuple[Generator, Callable[[], int]]]:
    """What writes the trace, and how often the model was asked so far."""
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


def opening(checkpoint: str, program: Prepared, data: DataConfig, constraint: str, served: bool) -> Iterator[str]:
    """What is simulated, and how; whether it was run, and what cannot be said."""
    name = visible(program.example.trace.program.name)
    yield f"{name} as {visible(checkpoint)} writes it ({how_written(data, constraint)})"
    if program.known:
        yield "the program was run: frames are compared with its trace"
    elif program.problem:
        yield f"not checked: {visible(program.problem)}"
    else:
        yield "the program is not run"
    check, why = contradictions(program.example, data)
    if check is None:
        yield f"contradictions are not looked for: {visible(why)}"
    if served and constraint:
        yield "where several tokens were allowed the server does not tell how likely its choice was, nor what was cut: `unknown`"


def how_written(data: DataConfig, constraint: str) -> str:
    """How the trace is written, in a few words."""
    how = [f"format {data.format}", f"locals {data.reveal.locals}", f"spacing {data.reveal.spacing:g}"]
    how += [f"memory {data.memory}"] if data.memory is not None else []
    how += [f"strings {data.string_encoding}"] if data.string_encoding != "plain" else []
    how += [f"held to {constraint}"] if constraint else []
    return ", ".join(how)
