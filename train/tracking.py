"""Metrics on the terminal, in `metrics.jsonl` and on W&B, whose failures are logged."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from transformers import TrainerCallback, TrainerState

from remedy.files import write_text, writing
from remedy.speed import Speed, duration
from remedy.train.config import RunConfig, TrackingSettings
from remedy.train.validation import Sample

log = logging.getLogger(__name__)
RUN_ID = "wandb-id"
PROGRESS = ("tokens", "examples", "flops")
"""Horizontal axes of W&B charts besides its step."""


def _with_sections(record: dict[str, Any]) -> dict[str, Any]:
    named = {}
    for key, value in record.items():
        if key in PROGRESS:
            named[f"progress/{key}"] = value
        else:
            named[f"eval/{key[5:]}" if key.startswith("eval_") else f"train/{key.removeprefix('train_')}"] = value
    return named


def log_evaluation(config: RunConfig, summary: Path) -> None:
    """Add an evaluation's conditions and records to its training's W&B run."""
    if (run := _open_training(config)) is None:
        return
    with _quietly():
        import pandas as pd
        import wandb

        conditions = pd.json_normalize(json.loads(summary.read_text(encoding="utf-8"))["conditions"])
        plain = conditions.map(lambda cell: ", ".join(map(str, cell)) if isinstance(cell, list) else cell)
        plain = plain.astype(object).where(plain.notna(), None)
        run.log({"test/conditions": wandb.Table(columns=list(plain), data=plain.values.tolist())})
        records = wandb.Artifact(f"evaluation-{run.id}", type="evaluation")
        records.add_dir(str(summary.parent))
        run.log_artifact(records)
        run.finish()


def log_report(tracking: TrackingSettings, name: str, folder: Path) -> None:
    """Log a report to W&B as its own run."""
    if (run := _open(tracking, folder, name, job_type="report")) is None:
        return
    with _quietly():
        import pandas as pd
        import wandb

        figures = sorted((folder / "figures").glob("*.png"))
        verdicts = pd.DataFrame(json.loads((folder / "report.json").read_text(encoding="utf-8"))["verdicts"])
        shown: dict[str, Any] = {f"report/{path.stem}": wandb.Image(str(path)) for path in figures}
        run.log({"report/verdicts": wandb.Table(dataframe=verdicts.astype(str)), **shown})
        files = wandb.Artifact(f"report-{tracking.group or 'runs'}", type="report")
        for path in [*sorted(p for p in folder.glob("*") if p.suffix in (".md", ".html")), *figures]:
            files.add_file(str(path), name=path.relative_to(folder).as_posix())
        run.log_artifact(files)
        run.finish()


def _open(tracking: TrackingSettings, directory: Path, name: str, **options: Any) -> Any:
    """Open a W&B run, offline without a key; None if off or failed."""
    if not tracking.wandb:
        return None
    try:
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
        # Not verified, since that asks the server: only a key decides.
        mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False, verify=False) else "offline")
        run: Any = wandb.init(
            project=tracking.project,
            group=tracking.group,
            tags=list(tracking.tags),
            name=name,
            dir=str(directory),
            mode=mode,  # type: ignore[arg-type]
            **options,
        )
        if mode == "offline":
            log.info("W&B is offline: `wandb sync %s` sends this run later", Path(run.dir).parent)
        return run
    except Exception as error:
        log.warning("W&B is not available (%s: %s); nothing is sent there", type(error).__name__, error)
        return None


def _open_training(run: RunConfig, **options: Any) -> Any:
    """Open a training's W&B run, the same for resume and evaluation."""
    if not run.tracking.wandb:
        return None
    folder = Path(run.output)
    path, number = folder / RUN_ID, uuid.uuid4().hex[:12]
    if path.exists():
        number = path.read_text(encoding="utf-8")
    else:
        write_text(path, number)
    return _open(run.tracking, folder, run.name, id=number, resume="allow", **options)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        log.warning("W&B stopped (%s: %s); the run goes on", type(error).__name__, error)


METRICS = "metrics.jsonl"


class Tracking(TrainerCallback):
    """Callback that appends records with a loss to `metrics.jsonl` and sends all to W&B.

    A record has what training logs (loss, learning rate, ...; `eval_...` of validation), and `tokens` and `flops` so
    far. Only the main process writes. Resume drops records after the checkpoint.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config, self.path = config, Path(config.output) / METRICS
        self.run: Any = None

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            step = state.global_step
            records = [record for record in read_metrics(self.path) if step and record["step"] <= step]
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in records))
            # create_new: stacked seeds have open runs at the same time.
            settings = self.config.model_dump(mode="json")
            self.run = _open_training(self.config, config=settings, job_type="train", reinit="create_new")

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:  # so that the shortest run has a record
            control.should_log = True

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and kwargs["logs"]:
            record = {**kwargs["logs"], "tokens": state.num_input_tokens_seen, "flops": float(state.total_flos)}
            if _has_loss(record):
                with writing(self.path), self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"step": state.global_step, **record}) + "\n")
            examples = state.global_step * self.config.train.batch_size * self.config.train.pack
            self._send(_with_sections({**record, "examples": examples}), state.global_step)

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.run is not None:
            with _quietly():
                self.run.finish()

    def samples(self, step: int, samples: list[Sample]) -> None:
        """Send W&B a table of true and predicted validation rows."""
        if self.run is None:
            return
        with _quietly():
            import wandb

            rows: list[list[Any]] = [[step, *sample] for sample in samples]
            table = wandb.Table(columns=["step", "true", "predicted", "wrong tokens"], data=rows)
            self._send({"eval/samples": table}, step)

    def _send(self, record: dict[str, Any], step: int) -> None:
        run, self.run = self.run, None  # after a failure nothing more is sent
        if run is not None:
            with _quietly():
                run.log(record, step=step)
                self.run = run


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read a metrics file's records, up to the first damaged line."""
    records: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not (isinstance(record, dict) and isinstance(record.get("step"), int) and _has_loss(record)):
            break
        records.append(record)
    return records


def _has_loss(record: dict[str, Any]) -> bool:
    return "loss" in record or "eval_loss" in record


class ProgressLine(TrainerCallback):
    """Callback that shows step, loss, speed and time left.

    On leaving its context the terminal is restored.
    """

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
            right = {key.removeprefix("eval_right_"): share for key, share in logs.items() if "eval_right_" in key}
            shares = ", ".join(f"{role} {share:.1%}" for role, share in right.items())
            self.figures[kind] = f"validation loss {logs['eval_loss']:.4g}, right: {shares}"
        else:
            time_left = duration(self.speed.left(state.global_step, state.max_steps))
            text = f"loss {logs['loss']:.4g}, {logs['tokens_per_second']:,.0f} tokens/s"
            self.figures[kind] = f"{text}, {time_left} left" if time_left else text
        for task in self.live.task_ids:
            self.live.update(task, figures=", ".join(filter(None, self.figures.values())))
        if not self.live.task_ids:
            print(f"step {state.global_step} of {state.max_steps}: {self.figures[kind]}", flush=True)
