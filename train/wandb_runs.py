"""Weights & Biases: a run's training and evaluation as one W&B run, and reports. Whatever fails here ends the tracking alone."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remedy.files import replace_file
from remedy.train.config import RunConfig, TrackingSettings
from remedy.train.validation import Sample

log = logging.getLogger(__name__)
RUN_ID = "wandb-id"
PROGRESS = ("tokens", "examples", "flops")
"""Axes beside W&B's own step: figures can be drawn against any of them."""


def _named(record: dict[str, Any]) -> dict[str, Any]:
    """Put a record's figures under `train/`, `eval/` (validation) and `progress/`."""
    named = {}
    for key, value in record.items():
        if key in PROGRESS:
            named[f"progress/{key}"] = value
        else:
            named[f"eval/{key[5:]}" if key.startswith("eval_") else f"train/{key.removeprefix('train_')}"] = value
    return named


class WandbLogger:
    """Mirror of a training's records on W&B; one W&B run over all resumes. Does nothing without `tracking.wandb`."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.run: Any = None

    def start(self) -> None:
        """Start the W&B run, or continue it."""
        settings = self.config.model_dump(mode="json")
        # Runs of seeds that are trained at once are open at the same time.
        self.run = _open_training(self.config, config=settings, job_type="train", reinit="create_new")

    def log(self, step: int, record: dict[str, Any]) -> None:
        """Send a record, with the examples read so far."""
        examples = step * self.config.train.batch_size * self.config.train.pack
        self._send(_named({**record, "examples": examples}), step)

    def samples(self, step: int, samples: list[Sample]) -> None:
        """Send a table of validation rows: the true text beside the model's likeliest tokens."""
        if self.run is not None:
            import wandb

            rows: list[list[Any]] = [[step, *sample] for sample in samples]
            table = wandb.Table(columns=["step", "true", "predicted", "wrong tokens"], data=rows)
            self._send({"eval/samples": table}, step)

    def _send(self, record: dict[str, Any], step: int) -> None:
        if not _quietly(self.run, lambda: self.run.log(record, step=step)):
            self.run = None

    def finish(self) -> None:
        """End the W&B run."""
        _quietly(self.run, lambda: self.run.finish())


def log_evaluation(config: RunConfig, summary: Path) -> None:
    """Add an evaluation to its training's W&B run: a table of the summary's conditions, and the records as an artifact."""
    run = _open_training(config)

    def add() -> None:
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

    _quietly(run, add)


def log_report(tracking: TrackingSettings, name: str, folder: Path) -> None:
    """Put a report on W&B as a run of its own in the runs' group: a table of its verdicts, its figures, its files as an artifact."""
    run = _open(tracking, folder, name, job_type="report")

    def add() -> None:
        import pandas as pd
        import wandb

        figures = sorted((folder / "figures").glob("*.png"))
        verdicts = pd.DataFrame(json.loads((folder / "report.json").read_text(encoding="utf-8"))["verdicts"]).astype(
            str
        )
        shown: dict[str, Any] = {f"report/{path.stem}": wandb.Image(str(path)) for path in figures}
        run.log({"report/verdicts": wandb.Table(dataframe=verdicts), **shown})
        files = wandb.Artifact(f"report-{tracking.group or 'runs'}", type="report")
        for path in [*sorted(p for p in folder.glob("*") if p.suffix in (".md", ".html")), *figures]:
            files.add_file(str(path), name=path.relative_to(folder).as_posix())
        run.log_artifact(files)
        run.finish()

    _quietly(run, add)


def _open(tracking: TrackingSettings, directory: Path, name: str, **options: Any) -> Any:
    """A W&B run, online when a key is configured and offline otherwise (`wandb sync` sends it later).

    None if the settings say so, or if it fails.
    """
    if not tracking.wandb:
        return None
    try:
        import wandb

        os.environ.setdefault("WANDB_SILENT", "true")
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
    """The W&B run of a training, the same one when it is resumed and evaluated."""
    if not run.tracking.wandb:
        return None
    folder = Path(run.output)
    path, number = folder / RUN_ID, uuid.uuid4().hex[:12]
    if path.exists():
        number = path.read_text(encoding="utf-8")
    else:
        replace_file(path, lambda partial: partial.write_text(number, encoding="utf-8"))
    return _open(run.tracking, folder, run.name, id=number, resume="allow", **options)


def _quietly(run: Any, action: Callable[[], Any]) -> bool:
    """Do something with a W&B run if there is one; a failure ends the tracking, not the run."""
    if run is None:
        return True
    try:
        action()
        return True
    except Exception as error:
        log.warning("W&B stopped (%s: %s); the run goes on", type(error).__name__, error)
        return False
