"""Failures of a training that a user can put right, in words that say how."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from remedy.processes import this_process
from remedy.settings import UserError
from remedy.train.checkpoints import latest_intact
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.data import Rows
from remedy.train.trainer import NonFiniteLoss, RowTrainer

NO_MEMORY = ("allocate memory", "DataLoader worker")
"""What errors say of a want of memory that have no class of their own; a worker that makes examples is killed for it."""


@contextlib.contextmanager
def explained(trainer: RowTrainer, rows: Rows, config: RunConfig) -> Iterator[None]:
    """Turns what a user can put right during training into a message that says how."""
    settings = config.train
    try:
        yield
    except NonFiniteLoss as error:
        if this_process().is_main:
            Path(config.output, DIVERGED).write_text(f"step {error.step}\n", encoding="utf-8")
        raise UserError(diverged(error, rows, config)) from None
    except UserError as error:  # a worker of the DataLoader sends it as a text that ends with the error's own
        found = str(error)
        raise UserError(found.rsplit("Error: ", 1)[-1].strip() if found.startswith("Caught ") else found) from None
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        if not known and not any(words in str(error) for words in NO_MEMORY):
            raise
        batch, length = trainer.shape or (settings.batch_size, 0)
        raise UserError(
            f"out of memory at {batch} rows of {length} tokens in a process: raise train.gradient_accumulation_steps "
            f"(now {settings.gradient_accumulation_steps}), lower train.batch_size or train.dataloader_num_workers, make examples "
            "shorter (data.task, data.reveal.max_tokens), or set train.gradient_checkpointing=true; with several GPUs, "
            "train.deepspeed.stage=3"
        ) from None


def diverged(error: NonFiniteLoss, rows: Rows, config: RunConfig) -> str:
    """Explain a loss that is NaN or infinite."""
    step, size = error.step, config.train.batch_size
    examples = rows.describe(range((step - 1) * size, step * size))
    kept, _ = latest_intact(Path(config.output))
    rest = f"{kept.path.name} is the last good checkpoint" if kept else "no checkpoint was written before"
    return (
        f"step {step}: the loss is NaN or infinite ({examples}); {rest}. Lower train.learning_rate or "
        "train.max_grad_norm, raise train.warmup_ratio, or use fp32"
    )
