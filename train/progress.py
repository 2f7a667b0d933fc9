"""Progress of a training: one line that moves on a terminal, a line for each logged record elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from remedy.speed import Speed, duration

log = logging.getLogger(__name__)


def validation_figures(record: Mapping[str, Any]) -> str:
    """`loss 0.42, 93.0% exact`, of a record of validation."""
    return f"loss {record['eval_loss']:.4g}, {record['eval_exact_match']:.1%} exact"


class ProgressLine(TrainerCallback):
    """Step, loss, tokens per second and time left. A context, so that the terminal is left in order however training ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.speed = Speed()
        self.trained = self.validated = ""
        self.task = TaskID(0)
        self.live: Progress | None = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.speed.rate(state.global_step)
        console = Console()
        if state.is_world_process_zero and console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
            )
            self.live = Progress(*columns, console=console)
            self.task = self.live.add_task(self.name, total=state.max_steps, completed=state.global_step, figures="")
            self.live.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.live is not None:
            self.live.update(self.task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or not {"loss", "eval_loss"} & set(logs):
            return
        if "eval_loss" in logs:
            self.validated = f"validation {validation_figures(logs)}"
            figures = self.validated
        else:
            left = duration(self.speed.left(state.global_step, state.max_steps))
            figures = f"loss {logs['loss']:.4g}, {logs['tokens_per_second']:,.0f} tokens/s" + (
                f", {left} left" if left else ""
            )
            self.trained = figures
        if self.live is not None:
            self.live.update(self.task, figures=", ".join(filter(None, (self.trained, self.validated))))
        else:
            log.info("step %d of %d: %s", state.global_step, state.max_steps, figures)
