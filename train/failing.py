"""Failures of a training that a user can put right, in words that say how."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from remedy.messages import one_line
from remedy.processes import this_process
from remedy.settings import UserError
from remedy.train.checkpoints import latest_intact
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.data import TraceDataset
from remedy.train.shards import ShardDataset
from remedy.train.trainer import NonFiniteLoss, RowTrainer

UNREADABLE = {"UnpicklingError", "SafetensorError", "TypeError", "ValueError", "KeyError", "IndexError", "EOFError"}
"""What reading a checkpoint raises where it holds what no training wrote."""


@contextlib.contextmanager
def explained(
    trainer: RowTrainer, rows: TraceDataset | ShardDataset, config: RunConfig, output: Path, resumed: Path | None = None
) -> Iterator[None]:
    """Turns what a user can put right during training into a message that says how. `resumed`: the checkpoint that it goes on from."""
    settings = config.train
    try:
        yield
    except NonFiniteLoss as error:
        if this_process().is_main:
            (output / DIVERGED).write_text(f"step {error.step}\n", encoding="utf-8")
        raise UserError(diverged(error, rows, config)) from None
    except UserError as error:
        # Of a shard. A worker of the DataLoader sends its error as a text that ends with the error's own.
        found = str(error)
        raise UserError(found.rsplit("Error: ", 1)[-1].strip() if found.startswith("Caught ") else found) from None
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if str(error).startswith("DataLoader worker"):
            raise UserError(
                f"{one_line(str(error), 200)}: a process that makes examples was killed, perhaps for want of memory: give the same "
                "command with --resume, and a lower train.dataloader_num_workers"
            ) from None
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "allocate memory" not in str(error):
            raise
        batch, length = trainer.shape or (settings.batch_size, 0)
        raise UserError(
            f"out of memory at {batch} rows of {length} tokens in a process: raise train.gradient_accumulation_steps "
            f"(now {settings.gradient_accumulation_steps}), lower train.batch_size, make examples shorter (data.task, "
            "data.reveal.max_tokens), or set train.gradient_checkpointing=true; with several GPUs, train.deepspeed.stage=3"
        ) from None
    except Exception as error:
        if resumed is None or trainer.shape or type(error).__name__ not in UNREADABLE:
            raise
        said = one_line(str(error) or type(error).__name__, 120)
        raise UserError(
            f"{resumed}: holds what no training wrote ({said}): delete it and give the same command with --resume"
        ) from None


def diverged(error: NonFiniteLoss, rows: TraceDataset | ShardDataset, config: RunConfig) -> str:
    """Explain a loss that is NaN or infinite."""
    step, size = error.step, config.train.batch_size
    examples = rows.describe(range((step - 1) * size, step * size))
    kept, _ = latest_intact(Path(config.output))
    rest = f"{kept.path.name} is the last good checkpoint" if kept else "no checkpoint was written before"
    return (
        f"step {step}: the loss is NaN or infinite ({examples}); {rest}. Lower train.learning_rate or "
        "train.max_grad_norm, raise train.warmup_ratio, or use fp32"
    )
