"""Where a run's figures go: `metrics.jsonl` always, Weights & Biases when it can. Tracking never fails a run."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from remedy.train.config import RunConfig, TrackingSettings

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


RUN_ID = "wandb-id"


def start_wandb(tracking: TrackingSettings, directory: Path, name: str, **options: Any) -> Any:
    """A W&B run, online when a key is configured and offline otherwise (`wandb sync` sends it later); None if that fails."""
    try:
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
        mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False, verify=False) else "offline")
        return wandb.init(
            project=tracking.project,
            group=tracking.group,
            tags=list(tracking.tags),
            name=name,
            dir=str(directory),
            mode=mode,  # type: ignore[arg-type]
            **options,
        )
    except Exception as error:
        print(f"W&B is not available ({type(error).__name__}: {error}); nothing is sent there", file=sys.stderr)
        return None


def _same_run(config: RunConfig) -> dict[str, Any]:
    """What lets a resumed training, and later its evaluation, go on in one W&B run."""
    path = Path(config.output) / RUN_ID
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex[:12], encoding="utf-8")
    return {"id": path.read_text(encoding="utf-8"), "resume": "allow"}


class WandbRun(TrainerCallback):
    """Mirrors logged records to W&B; one run for all ranks, and the same when training is resumed."""

    def __init__(self, config: RunConfig, directory: Path) -> None:
        self.config = config
        self.directory = directory
        self.run: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            settings = self.config.model_dump(mode="json")
            options = {"config": settings, "job_type": "train", **_same_run(self.config)}
            self.run = start_wandb(self.config.tracking, self.directory, self.config.name, **options)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not _quietly(self.run, lambda: self.run.log(logs or {}, step=state.global_step)):
            self.run = None

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        _quietly(self.run, lambda: self.run.finish())


def log_evaluation(config: RunConfig, summary: Path) -> None:
    """Add an evaluation to its training's W&B run: a table of the summary's conditions, and the records as an artifact."""
    run = start_wandb(config.tracking, Path(config.output), config.name, **_same_run(config))

    def add() -> None:
        import wandb

        rows = json.loads(summary.read_text(encoding="utf-8"))["conditions"]
        columns = list(dict.fromkeys(key for row in rows for key in row if key != "departures"))
        table = wandb.Table(columns=columns, data=[[row.get(key) for key in columns] for row in rows])
        run.log({"evaluation": table})
        records = wandb.Artifact(f"evaluation-{run.id}", type="evaluation")
        records.add_dir(str(summary.parent))
        run.log_artifact(records)
        run.finish()

    _quietly(run, add)


def log_report(tracking: TrackingSettings, name: str, folder: Path) -> None:
    """Put a report on W&B as a run of its own in the runs' group: its figures to look at, its files as an artifact."""
    run = start_wandb(tracking, folder, name, job_type="report")

    def add() -> None:
        import wandb

        run.log({path.stem: wandb.Image(str(path)) for path in sorted((folder / "figures").glob("*.png"))})
        files = wandb.Artifact(f"report-{tracking.group or 'runs'}", type="report")
        for path in sorted(p for p in folder.glob("*") if p.suffix in (".md", ".html")):
            files.add_file(str(path))
        for path in sorted((folder / "figures").glob("*.png")):
            files.add_file(str(path), name=f"figures/{path.name}")
        run.log_artifact(files)
        run.finish()

    _quietly(run, add)


def _quietly(run: Any, action: Callable[[], Any]) -> bool:
    """Do something with a W&B run if there is one; a failure ends the tracking, not the run."""
    if run is None:
        return True
    try:
        action()
        return True
    except Exception as error:
        print(f"W&B stopped ({type(error).__name__}: {error}); the run goes on", file=sys.stderr)
        return False
