"""Progress of a training: one line that moves on a terminal, a line for each logged record elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from transformers import TrainerCallback, TrainerState

from remedy.speed import Speed, duration


def validation_figures(record: Mapping[str, Any]) -> str:
    """`loss 0.42, 93.0% exact`, of a record of validation."""
    return f"loss {record['eval_loss']:.4g}, {record['eval_exact_match']:.1%} exact"


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
            self.figures[kind] = f"validation {validation_figures(logs)}"
        else:
            left = duration(self.speed.left(state.global_step, state.max_steps))
            said = f"loss {logs['loss']:.4g}, {logs['tokens_per_second']:,.0f} tokens/s"
            self.figures[kind] = f"{said}, {left} left" if left else said
        for task in self.live.task_ids:
            self.live.update(task, figures=", ".join(filter(None, self.figures.values())))
        if not self.live.task_ids:
            print(f"step {state.global_step} of {state.max_steps}: {self.figures[kind]}", flush=True)
