"""A run's figures: `metrics.jsonl`, and W&B beside it. Tracking never fails a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

from remedy.files import replace_file, writing
from remedy.train.wandb_runs import WandbLogger

METRICS = "metrics.jsonl"
TAIL = 1 << 14


class Tracking(TrainerCallback):
    """Appends every record of a loss, of training or validation, to `metrics.jsonl`, and tells W&B all records; on the main process
    only. On resume, records after the checkpoint are dropped first.

    A record is what training logs (loss, learning rate, gradient norm, tokens per second, ...; `eval_...` of validation), with the
    `tokens` and `flops` so far.
    """

    def __init__(self, folder: Path, wandb: WandbLogger) -> None:
        self.path = folder / METRICS
        self.wandb = wandb

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            step = state.global_step
            kept = [record for record in read_metrics(self.path) if step and record["step"] <= step]
            text = "".join(json.dumps(record) + "\n" for record in kept)
            replace_file(self.path, lambda partial: partial.write_text(text, encoding="utf-8"))
            self.wandb.start()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:  # so that the shortest run has a record
            control.should_log = True

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and kwargs["logs"]:
            record = {**kwargs["logs"], "tokens": state.num_input_tokens_seen, "flops": float(state.total_flos)}
            if _has_loss(record):
                with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"step": state.global_step, **record}) + "\n")
            self.wandb.log(state.global_step, record)

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.wandb.finish()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the records of a metrics file up to a line that is none: a last one that a kill cut off, or damage."""
    return _records(path.read_text(encoding="utf-8", errors="replace").splitlines()) if path.exists() else []


def last_record(path: Path, key: str = "loss") -> dict[str, Any] | None:
    """Find the last whole record with a key, from the file's end; None before there is one."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((record for line in reversed(lines) for record in _records([line]) if key in record), None)


def _has_loss(record: dict[str, Any]) -> bool:
    return "loss" in record or "eval_loss" in record


def _records(lines: list[str]) -> list[dict[str, Any]]:
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not (isinstance(record, dict) and isinstance(record.get("step"), int) and _has_loss(record)):
            break
        records.append(record)
    return records
