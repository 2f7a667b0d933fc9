"""Evaluation of a checkpoint, also under torchrun.

`python launch/evaluate.py CHECKPOINT CONFIG --out DIR [key=value ...]`. Under `torchrun` every process writes a part of
every condition.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remedy.launch.console import Checkpoint, Overrides, in_words, load_one, target
from remedy.processes import end_with_parent, this_process
from remedy.settings import UserError

if TYPE_CHECKING:
    from remedy.eval.distributed import Rank

GRACE = 5.0
"""Seconds that other processes wait for the first to print the error, after which the launcher ends all."""


@contextlib.contextmanager
def this_rank() -> Iterator[Rank]:
    """Yield this process's rank, with a GPU of its own.

    If one of several processes fails, all print why, the first one first, and exit with 2.

    Raises:
        UserError: as the block, if this is the only process.
    """
    from remedy.eval.distributed import Rank

    rank = Rank(this_process())
    if not rank.several:
        yield rank
        return
    end_with_parent(os.getppid(), lambda: os._exit(1))  # a killed launcher leaves its processes running
    if not rank.is_main:
        logging.getLogger("remedy").setLevel(logging.WARNING)
    try:
        import torch

        if torch.cuda.is_available():
            number, count = rank.process.local_rank, torch.cuda.device_count()
            if number >= count:
                raise UserError(f"there are {count} GPUs here: give torchrun no more --nproc_per_node")
            torch.cuda.set_device(number)
        yield rank
    except KeyboardInterrupt:
        if rank.is_main:
            raise
        os._exit(130)  # without a traceback: the first process reports it
    except Exception as error:
        message = in_words(error)
        if message is None:
            raise
        if not rank.is_main:
            time.sleep(GRACE)
        print(f"error: {message}", file=sys.stderr, flush=True)
        os._exit(2)  # at once, so that the launcher ends the others before they repeat it


def evaluate(
    checkpoint: Checkpoint,
    config: Annotated[str, typer.Argument(help="YAML with `diagnostics`")],
    out: Annotated[Path, target("folder for records and summary")],
    overrides: Overrides = None,
    name: Annotated[str, typer.Option(help="what reports call it (default: the checkpoint's path)")] = "",
) -> None:
    """Run diagnostics on a checkpoint; run again to continue.

    Under `torchrun`, start launch/evaluate.py.
    """
    from remedy.eval.config import EvalConfig

    with this_rank() as rank:
        settings = load_one(EvalConfig, config, overrides)
        # After validation, since these imports take seconds.
        from remedy.eval.evaluate import evaluate_checkpoint

        summary = evaluate_checkpoint(checkpoint, settings, out, name, rank=rank)
        if rank.is_main:
            print(f"summary: {summary}")


if __name__ == "__main__":
    from remedy.launch.cli import main

    main("evaluate")
