"""Destinations of a run's figures: a list of loggers, each told every record that training logs. Tracking never fails a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from remedy.files import replace_file, writing

METRICS = "metrics.jsonl"
TAIL = 1 << 14


class RunLogger(Protocol):
    """Keeper of a run's records. To add one, write it in a file of its own and give it to `Tracking` in run.py."""

    def start(self, step: int) -> None:
        """Begin after `step`: 0, or the checkpoint's that training is resumed from."""

    def log(self, step: int, record: dict[str, Any]) -> None:
        """Keep a record: loss, learning rate, gradient norm, tokens per second, ...; `eval_...` of validation; `tokens` and `flops`
        so far."""

    def finish(self) -> None:
        """End with training."""


class Tracking(TrainerCallback):
    """Passes on to the loggers what training logs; on the main process only."""

    def __init__(self, loggers: list[RunLogger]) -> None:
        self.loggers = loggers

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            for logger in self.loggers:
                logger.start(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:  # so that the shortest run has a record
            control.should_log = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if state.is_world_process_zero and logs:
            record = {**logs, "tokens": state.num_input_tokens_seen, "flops": float(state.total_flos)}
            for logger in self.loggers:
                logger.log(state.global_step, record)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            for logger in self.loggers:
                logger.finish()


class MetricsFile:
    """Appends every record of a loss, of training or validation, to `metrics.jsonl`; on resume, those after the checkpoint are
    dropped first."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / METRICS

    def start(self, step: int) -> None:
        """Keep the records up to this step."""
        text = "".join(json.dumps(r) + "\n" for r in read_metrics(self.path) if step and r["step"] <= step)
        replace_file(self.path, lambda partial: partial.write_text(text, encoding="utf-8"))

    def log(self, step: int, record: dict[str, Any]) -> None:
        """Append one line."""
        if _has_loss(record):
            with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **record}) + "\n")

    def finish(self) -> None:
        """Do nothing: no file is open."""


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
        except (ValueError, RecursionError):
            break
        if not (isinstance(record, dict) and isinstance(record.get("step"), int) and _has_loss(record)):
            break
        records.append(record)
    return records
