"""`remedy simulate`: a model's trace of one program."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Annotated, Any

import typer
from rich.console import Console

from remedy.eval.config import EvalConfig
from remedy.eval.decoding.forcings import FORCINGS
from remedy.launch.console import Arguments, Checkpoint, Overrides, Page
from remedy.launch.show import present
from remedy.messages import suggest
from remedy.settings import ConfigError, apply_changes, build, parse_overrides

IDLE = ("diagnostics", "split", "trained_on", "batch_size", "set.seed", "set.task")
"""Evaluation settings that do nothing for a given program, except `set.task.tracer`."""


def simulate(
    checkpoint: Checkpoint,
    program: Annotated[str, typer.Argument(help="a .py file with a function marked `# << START_OF_TRACE`")],
    overrides: Overrides = None,
    input: Arguments = None,
    check: Annotated[
        bool, typer.Option("--check", help="run it too, in the sandbox, and mark the first error")
    ] = False,
    forcing: Annotated[str, typer.Option(help="control_flow: what its code allows; others feed true parts")] = "free",
    html: Page = None,
) -> None:
    """Show a model's trace of your program, with its own probability of each frame.

    The program is not run, unless you --check.

    Settings: those of an evaluation: set.*, by default as the checkpoint was trained, max_new_tokens, backend.*,
    precision and others. For example set.reveal.locals=diff backend.url=http://localhost:8000 backend.model=NAME.
    """
    settings = settings_of(program, input, forcing, parse_overrides(overrides or []))
    from remedy.launch.simulation import simulated  # after validation, since importing it takes seconds

    written = count(1)
    with Console().status("") as status:
        view = simulated(checkpoint, settings, check, lambda *_: status.update(f"{next(written):,} tokens written"))
    present(view, html)


def settings_of(program: str, arguments: str | None, forcing: str, changes: Mapping[str, Any]) -> EvalConfig:
    """Make evaluation settings for one program, with `arguments` of its `f`.

    Raises:
        ConfigError: a change does nothing here, or the settings do not validate.
    """
    if forcing not in FORCINGS:
        raise ConfigError(f"--forcing {forcing!r}: {suggest(forcing, FORCINGS)}")
    for key in changes:
        if f"{key}.".startswith(tuple(f"{idle}." for idle in IDLE)) and not key.startswith("set.task.tracer."):
            raise ConfigError(f"override {key}: does nothing here, where the program is given: remove it")
    data = {
        "diagnostics": [{"kind": "programs", "forcing": [forcing]}],
        "set": {"task": {"kind": "programs", "path": program, "input": arguments}, "seed": 0},
    }
    return build(EvalConfig, apply_changes(data, changes, "override"))
