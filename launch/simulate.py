"""`remedy simulate`: a model's trace of a user's program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from remedy.files import write_text
from remedy.launch.console import Checkpoint, MaybePath, MaybeText, Overrides, target
from remedy.messages import suggest
from remedy.settings import ConfigError


def simulate(
    checkpoint: Checkpoint,
    program: Annotated[Path, typer.Argument(help="a Python file with one function marked `# << START_OF_TRACE`")],
    overrides: Overrides = None,
    input: Annotated[
        MaybeText, typer.Option(help="arguments of `f`, in a file that marks nothing: \"'abc', 3\"")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="run the program too, in the sandbox, and mark the first error")
    ] = False,
    constrain: Annotated[str, typer.Option(help="control_flow: write only what the program's code allows")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="most tokens of the trace")] = 4096,
    html: Annotated[MaybePath, target("write a page too")] = None,
) -> None:
    """Print a model's trace of your program, frame by frame, with the model's own probability of it.

    The program is not run, unless you --check.

    Settings: data.* (format, reveal.*, string_encoding, memory, task.tracer.*), by default as the checkpoint was trained, and
    backend.*, as in an evaluation. For example data.reveal.locals=diff backend.url=http://localhost:8000 backend.model=NAME.
    """
    from rich.console import Console  # what follows takes seconds to import

    from remedy.data_gen.prompts import prompt_spans, read_program
    from remedy.eval.decoding.constraints import check_data, check_interpreter
    from remedy.eval.decoding.forcings import CONSTRAINED
    from remedy.eval.view import simulate as work
    from remedy.eval.view.terminal import Terminal, page
    from remedy.models.loading import load_checkpoint, load_outline

    if constrain and constrain not in CONSTRAINED:
        raise ConfigError(f"--constrain {constrain!r}: {suggest(constrain, sorted(CONSTRAINED))}")
    asked = read_program(program, input)
    changes, config = work.read_words(overrides or [])
    data = work.data_of(checkpoint, asked, changes)
    if constrain:
        check_data(constrain, data)
        check_interpreter(constrain, data)
    prompt_spans(asked, data)  # what is wrong with the program is said before weights are loaded
    model, tokenizer = load_outline(checkpoint) if config.backend else load_checkpoint(checkpoint)
    console, written = Console(), 0
    terminal = Terminal(console)
    with work.generating(model, tokenizer, checkpoint, config.backend) as (generator, calls):
        found = work.prepared(asked, data, tokenizer, check)
        facts = work.opening(found, data, checkpoint, constrain, config.backend is not None)
        terminal.facts(facts)
        begin, before = time.perf_counter(), calls()
        with console.status("") as status:

            def listen(*_: object) -> None:
                nonlocal written
                written += 1
                status.update(f"{written:,} tokens written")

            simulation = work.simulate(generator, tokenizer, found, data, constrain, max_new_tokens, listen)
        said = work.summary(simulation, calls() - before, time.perf_counter() - begin)
    view = work.simulation_view(simulation, data, f"{asked.name}, simulated", facts | said)
    terminal.say()
    terminal.blocks(view)
    terminal.say()
    terminal.facts(said)
    if html is not None:
        write_text(html, page(view))
        terminal.say(f"page: {html}")
