"""Hugging Face's Trainer on rows in index order, with throughput and data-wait figures and checkpoints known to be whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, Sampler, SequentialSampler
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

COMPLETE = "complete"
"""Written into a checkpoint's folder after everything else: a kill while saving leaves a folder without it."""


class RowTrainer(Trainer):
    """Reads rows in index order; logs tokens per second over all processes and the share of time spent on data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._data_seconds = 0.0
        self._tokens = 0
        self._since = time.perf_counter()

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int]:
        dataset: Any = train_dataset if train_dataset is not None else self.train_dataset
        return SequentialSampler(dataset)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        begin = time.perf_counter()
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._data_seconds += time.perf_counter() - begin
        self._tokens += sum(int(batch["attention_mask"].sum()) for batch in batches)
        return batches, items

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            now = time.perf_counter()
            elapsed = max(now - self._since, 1e-9)
            logs["tokens_per_second"] = round(self._tokens * self.args.world_size / elapsed, 1)
            logs["data_wait"] = round(self._data_seconds / elapsed, 4)
            self._since, self._tokens, self._data_seconds = now, 0, 0.0
        super().log(logs, start_time)


class MarkComplete(TrainerCallback):
    """Marks a checkpoint once all of its files are written."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero and args.output_dir is not None:
            (Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}" / COMPLETE).touch()


def last_complete_checkpoint(directory: Path) -> Path | None:
    """The newest checkpoint that was written to the end."""
    found = [
        (int(path.parent.name.rsplit("-", 1)[1]), path.parent)
        for path in directory.glob(f"{PREFIX_CHECKPOINT_DIR}-*/{COMPLETE}")
    ]
    return max(found)[1] if found else None
