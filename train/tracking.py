"""Where a run's figures go: `metrics.jsonl` always, Weights & Biases when it can. Tracking never fails a run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from remedy.train.config import RunConfig

METRICS = "metrics.jsonl"


class MetricsFile(TrainerCallback):
    """Appends every logged record to `metrics.jsonl`; on resume, records after the checkpoint are dropped first."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / METRICS

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        kept = [r for r in read_metrics(self.path) if r["step"] <= state.global_step] if state.global_step else []
        self.path.write_text("".join(json.dumps(r) + "\n" for r in kept), encoding="utf-8")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if state.is_world_process_zero and logs and "loss" in logs:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; a last line cut off by a kill is ignored."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


class WandbRun(TrainerCallback):
    """Mirrors logged records to W&B: online when a key is configured, offline otherwise; one run for all ranks."""

    def __init__(self, config: RunConfig, directory: Path) -> None:
        self.config = config
        self.directory = directory
        self.run: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        try:
            import wandb

            os.environ.setdefault("WANDB_SILENT", "true")
            mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False, verify=False) else "offline")
            tracking = self.config.tracking
            self.run = wandb.init(
                project=tracking.project,
                group=tracking.group,
                tags=list(tracking.tags),
                name=self.config.name,
                dir=str(self.directory),
                mode=mode,  # type: ignore[arg-type]
                config=self.config.model_dump(mode="json"),
            )
        except Exception as error:
            print(
                f"W&B is not available ({type(error).__name__}: {error}); metrics go to {METRICS} only", file=sys.stderr
            )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._quietly(lambda: self.run.log(logs or {}, step=state.global_step))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._quietly(lambda: self.run.finish())

    def _quietly(self, action: Any) -> None:
        if self.run is None:
            return
        try:
            action()
        except Exception as error:
            print(f"W&B stopped ({type(error).__name__}); the run goes on", file=sys.stderr)
            self.run = None
