"""Training of a model, also under torchrun or deepspeed.

`python launch/train.py CONFIG [key=value ...]`, or the same under a launcher.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remedy.launch.console import Overrides, in_words, load_one
from remedy.owner import owned
from remedy.processes import end_with_parent, this_process
from remedy.settings import UserError

if TYPE_CHECKING:
    from remedy.train.config import RunConfig

GRACE = 60.0
"""Seconds for the last step and checkpoint after the launcher has ended."""


def given_programs(config: RunConfig) -> list[str]:
    """Describe the splits of a run's given programs, and untraced ones.

    Raises:
        ConfigError: there are none to train or validate on.
        UserError: as `untraced`.
    """
    from remedy.data_gen.examples import untraced
    from remedy.data_gen.mixture import Mixture

    lines: dict[str, None] = {}
    for data in config.stage_data() if config.train.total_steps and config.shards is None else ():
        for source in Mixture(data, config.mixture).sources:
            task = source.data.task
            task.require("train", 1, "training")
            if config.train.evaluate_every is not None:
                task.require("validation", 1, "train.evaluate_every")
            if text := task.describe_splits():
                lines |= dict.fromkeys([text, *untraced(task)])
    return list(lines)


def train(
    config: Annotated[str, typer.Argument(help="a YAML file, for example configs/train/permutation.yaml")],
    overrides: Overrides = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="continue from the last intact checkpoint in the output")
    ] = False,
    local_rank: Annotated[int | None, typer.Option("--local_rank", hidden=True)] = None,
) -> None:
    """Train a model; under `torchrun` or `deepspeed`, start launch/train.py."""
    from remedy.train.config import RunConfig

    settings = load_one(RunConfig, config, overrides)
    # The deepspeed launcher passes a local rank: it implies DeepSpeed, if the configuration has no section.
    if local_rank is not None and settings.train.deepspeed is None:
        if settings.train.fsdp is not None:
            raise UserError("train.fsdp is FSDP2, and this is DeepSpeed's launcher: start the run with torchrun")
        settings = settings.changed({"train.deepspeed": {}})
    if this_process().is_main:
        with owned(Path(settings.output)):  # raises before imports that take seconds
            pass
        print("".join(f"{line}\n" for line in given_programs(settings)), end="", flush=True)
    if this_process().world_size > 1:  # a killed launcher leaves its processes running
        end_with_parent(os.getppid(), _end)
    # After validation, since these imports take seconds.
    from remedy.train.checkpoints import checkpoints
    from remedy.train.processes import leave
    from remedy.train.run import train as run
    from remedy.train.stacked import train_stacked

    runs = settings.runs()
    if resume and this_process().is_main and not any(checkpoints(Path(run_config.output)) for run_config in runs):
        print(f"{settings.output}: no checkpoint to resume from; training begins at step 0", flush=True)
    try:
        with resumable():
            if settings.train.stacked is None:
                run(settings, resume)
            else:
                train_stacked(settings.name, runs, resume)
    except Exception as error:
        message = in_words(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr, flush=True)
        leave(2)
    else:
        if this_process().is_main:
            print("\n".join(f"saved {run_config.output}" for run_config in runs))
        leave()


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Exit with a stopped training's status."""
    from remedy.train.processes import TrainingStopped, leave

    try:
        yield
    except TrainingStopped as stopped:
        if this_process().is_main:
            print(f"stopped: {stopped}", file=sys.stderr)
        leave(stopped.status)


def _end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    from remedy.launch.cli import main

    main("train")
