"""`remedy simulate`: a model's trace of a user's program, as it is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from remedy.data_gen.prompts import prompt_spans, read_program
from remedy.eval.calibration.calibrator import RISK, Trust
from remedy.eval.decoding.constraints import check_data, check_interpreter
from remedy.eval.decoding.forcings import CONSTRAINED
from remedy.eval.records.model_frames import ModelFrame
from remedy.eval.simulate import (
    contradictions,
    data_of,
    first_written,
    generating,
    prepared,
    read_words,
    written_by,
)
from remedy.eval.simulate import simulate as write_trace
from remedy.eval.view.page import page
from remedy.eval.view.simulation import Believing, Screen, how_written, opening, simulation_view, summary
from remedy.files import replace_file
from remedy.messages import suggest
from remedy.models.loading import load_checkpoint, load_outline
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
        check_data(constrain, data)
        check_interpreter(constrain, data)
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
