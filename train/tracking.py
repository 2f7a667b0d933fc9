"""A run's figures: on the screen, in `metrics.jsonl`, and on W&B, which never fails a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from transformers import TrainerCallback, TrainerState

from remedy.files import replace_file, writing
from remedy.speed import Speed, duration
from remedy.train.wandb_runs import WandbLogger

METRICS = "metrics.jsonl"


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


class ProgressLine(TrainerCallback):
    """Step, loss, tokens per second and time left. A context, so that the terminal is left in order however training ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.speed = Speed()
        self.figures = {"loss": "", "eval_loss": ""}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        self.live = Progress(*columns, console=Console())

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live.task_ids:  # it was started
            self.live.stop()

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self.speed.rate(state.global_step)
        if state.is_world_process_zero and self.live.console.is_terminal:
            self.live.add_task(self.name, total=state.max_steps, completed=state.global_step, figures="")
            self.live.start()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        for task in self.live.task_ids:
            self.live.update(task, completed=state.global_step)

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        logs = kwargs["logs"]
        kind = next((key for key in ("eval_loss", "loss") if key in logs), None)
        if kind is None or not state.is_world_process_zero:
            return
        if kind == "eval_loss":
            self.figures[kind] = f"validation loss {logs['eval_loss']:.4g}, {logs['eval_exact_match']:.1%} exact"
        else:
            left = duration(self.speed.left(state.global_step, state.max_steps))
            said = f"loss {logs['loss']:.4g}, {logs['tokens_per_second']:,.0f} tokens/s"
            self.figures[kind] = f"{said}, {left} left" if left else said
        for task in self.live.task_ids:
            self.live.update(task, figures=", ".join(filter(None, self.figures.values())))
        if not self.live.task_ids:
            print(f"step {state.global_step} of {state.max_steps}: {self.figures[kind]}", flush=True)
