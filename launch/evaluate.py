"""Evaluate a checkpoint: `python launch/evaluate.py CHECKPOINT CONFIG --out DIR [key=value ...]`, or the same under `torchrun`, where
every process writes a part of every condition."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from remedy.launch.console import command_line, in_words, start, target
from remedy.messages import one_line
from remedy.parent_watch import end_with_parent
from remedy.settings import UserError, load

if TYPE_CHECKING:
    from remedy.eval.distributed import World

GRACE = 1.0
"""Seconds that the process which says what went wrong has for it before a launcher ends all."""


@contextlib.contextmanager
def together() -> Iterator[World]:
    """The processes that a launcher started with this one, each on a GPU of its own where there are any. Where they fail, the first
    that does says why, and all of them leave with status 2.

    Raises:
        UserError: in a single process, as it comes.
    """
    from torch.distributed import DistError

    from remedy.eval.distributed import UNREACHABLE, this_world

    world = this_world()
    if not world.several:
        yield world
        return
    end_with_parent(os.getppid(), lambda: os._exit(1))
    if not world.is_main:
        logging.getLogger("remedy").setLevel(logging.WARNING)
    try:
        _take_device(world.process.local_rank)
        yield world
    except KeyboardInterrupt:
        if world.fails_first():
            raise
        os._exit(130)  # another one says so; leaving by an exception would say it again
    except Exception as error:
        words = f"{UNREACHABLE} ({one_line(str(error))})" if isinstance(error, DistError) else in_words(error)
        if words is None:
            raise
        if world.fails_first():
            print(f"error: {words}", file=sys.stderr, flush=True)
        else:
            time.sleep(GRACE)
        sys.exit(2)


def _take_device(number: int) -> None:
    """Make a GPU the one that this process means by `cuda`."""
    import torch

    if torch.cuda.is_available():
        if number >= torch.cuda.device_count():
            raise UserError(f"there are {torch.cuda.device_count()} GPUs here: give torchrun no more --nproc_per_node")
        torch.cuda.set_device(number)


def evaluate(checkpoint: str, config: str, overrides: Sequence[str], out: Path, name: str) -> None:
    """Evaluate, as one of several processes or alone."""
    from remedy.eval.checkpoint import for_checkpoint, load_evaluated
    from remedy.eval.conditions import conditions_of
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate as run

    with together() as world:
        settings = load(EvalConfig, config, overrides)
        settings.refuse_on(world.process.world_size)
        subject = for_checkpoint(checkpoint, settings)
        conditions_of(settings, subject)  # what does not fit the data is said before weights are loaded
        model, tokenizer = load_evaluated(checkpoint, settings)
        say = lambda done: print(done, flush=True)  # noqa: E731
        summary = run(model, tokenizer, subject, settings, out, name or checkpoint, say, world=world)
        if world.is_main:
            print(f"summary: {summary}")


app = command_line()


@app.command()
def main(
    checkpoint: Annotated[str, typer.Argument(help="a run's folder, or any Hugging Face causal language model")],
    config: Annotated[str, typer.Argument(help="YAML with `diagnostics`")],
    overrides: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[key=value ...]", help="settings to change"),
    ] = None,
    out: Annotated[Path, target("folder for records and summary")] = ...,  # type: ignore[assignment]
    name: Annotated[str, typer.Option(help="what reports call it (default: the checkpoint's path)")] = "",
) -> None:
    """Run diagnostics on a checkpoint, as one of the processes that `torchrun` started or alone; run again to continue."""
    evaluate(checkpoint, config, overrides or [], out, name)


if __name__ == "__main__":
    start(app)
