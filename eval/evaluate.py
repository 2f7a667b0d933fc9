"""Evaluate a checkpoint: one Parquet file of records per condition, and a summary; interrupted and rerun, it continues."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.files import replace_file
from remedy.data_gen.settings import ConfigError, UserError, build, merge, read_yaml
from remedy.data_gen.splits import text_hash
from remedy.data_gen.tasks.programs import ProgramsTask
from remedy.eval.config import Condition, EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.diagnostics.frame_scorer import UNTRACED
from remedy.eval.diagnostics.token_scorer import tokens_by_role
from remedy.eval.report.verdicts import CONDITION_KEYS, COST
from remedy.eval.stats import rate
from remedy.models.config import eigenvalues_of
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import TraceTokenizer

RECORDS = "records"
SUMMARY = "summary.json"
REQUEST = "evaluation.json"


class ConditionDone(NamedTuple):
    """An evaluated condition, for whoever waits: which of how many, its rate of right answers, programs left out of it."""

    number: int
    of: int
    condition: Condition
    accuracy: float
    left_out: int

    def __str__(self) -> str:
        also = f" ({self.left_out} programs that could not be run are left out)" if self.left_out else ""
        return f"{self.number}/{self.of} {self.result}{also}"

    @property
    def result(self) -> str:
        """`permutation, length 16, action_forced: 93.0%`."""
        labels = self.condition.labels.items()
        words = [value if isinstance(value, str) else f"{key} {value}" for key, value in labels]
        return f"{', '.join([self.condition.diagnostic, *words])}: {self.accuracy:.1%}"


def evaluate(
    model: Any,
    tokenizer: TraceTokenizer,
    data: DataConfig,
    config: EvalConfig,
    directory: Path,
    name: str,
    progress: Callable[[ConditionDone], None] = lambda done: None,
    variant: str = "",
) -> Path:
    """Run every condition that has no records yet, then write the summary; returns its path.

    `variant`: what the run shares with others of other seeds, for reports to put them together.

    Raises:
        UserError: the folder holds the evaluation of another checkpoint or configuration.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    about = describe(model, tokenizer, data)
    conditions = [
        c for settings in config.diagnostics for c in DIAGNOSTICS[settings.kind].conditions(settings, data, config)
    ]
    request = {"run": name, "checkpoint": about, "data": data.model_dump(mode="json")}
    _claim(directory, {**request, **({"variant": variant} if variant else {})}, config)
    frames = []
    for number, condition in enumerate(conditions, start=1):
        path = directory / RECORDS / f"{condition.slug}.parquet"
        if not path.exists():
            rows = run_condition(model, tokenizer, condition, config)
            replace_file(path, pd.DataFrame(rows).assign(run=name).to_parquet)
        everything = read_records(path)
        frames.append(traced_only(everything))
        right = float(frames[-1]["final_right"].mean())
        left_out = len(everything) - len(frames[-1])
        progress(ConditionDone(number, len(conditions), condition, right, left_out))
    summary = summarise(pd.concat(frames, ignore_index=True), name)
    text = json.dumps(summary, indent=1)
    replace_file(directory / SUMMARY, lambda partial: partial.write_text(text, encoding="utf-8"))
    return directory / SUMMARY


def run_condition(
    model: Any, tokenizer: TraceTokenizer, condition: Condition, config: EvalConfig
) -> list[dict[str, Any]]:
    """Records of one condition, one per example."""
    rows: list[dict[str, Any]] = []
    for start in range(0, condition.examples, config.batch_size):
        indices = range(start, min(start + config.batch_size, condition.examples))
        encoded = encoded_examples(condition.data, tokenizer, condition.split, indices, os.cpu_count() or 1)
        batch, truths = [example for example, _ in encoded], [truth for _, truth in encoded]
        judgements = DIAGNOSTICS[condition.diagnostic].judge(model, tokenizer, batch, truths, condition, config)
        for example, truth, judged in zip(batch, truths, judgements):
            rows.append(
                {
                    "diagnostic": condition.diagnostic,
                    "example": f"{text_hash(example.identity):016x}",
                    "index": example.index,
                    "split": condition.split,
                    "functions": str(example.slices.get("functions", "")),
                    "source": str(example.slices.get("source", "")),
                    "format": condition.data.format,
                    "strings": condition.data.string_encoding,
                    "locals": condition.data.reveal.locals,
                    "frames": max(truth.frames) + 1,
                    **condition.labels,
                    **judged,
                    **tokens_by_role(truth),
                }
            )
    return rows


def summarise(records: pd.DataFrame, name: str) -> dict[str, Any]:
    """Rates with intervals per condition."""
    keys = [key for key in CONDITION_KEYS if key in records]
    rows = []
    for values, group in records.groupby(keys, dropna=False, sort=True):
        right = rate(group["final_right"].tolist())
        departed = group[group["departure_role"] != ""]["departure_role"].value_counts().sort_index()
        rows.append(
            {
                **{k: _plain(v) for k, v in zip(keys, values) if not pd.isna(v)},
                "examples": right.examples,
                "accuracy": right.mean,
                "low": right.low,
                "high": right.high,
                "truncated": float(group["truncated"].mean()),
                "frames_right": float(group["frames_right"].mean()),
                "tokens": float(group[list(COST)].sum(axis=1).mean()),
                "departures": {str(role): int(count) for role, count in departed.items()},
            }
        )
    return {"run": name, "conditions": rows}


def read_records(path: Path) -> pd.DataFrame:
    """One condition's records.

    Raises:
        UserError: the file is damaged.
    """
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: damaged records ({str(error).splitlines()[0]}); delete the file and evaluate again"
        ) from None


def traced_only(records: pd.DataFrame) -> pd.DataFrame:
    """The records without those of programs that could not be run, at which no model can be right or wrong."""
    return records[records["failure"] != UNTRACED] if "failure" in records else records


def for_checkpoint(checkpoint: str, config: EvalConfig) -> tuple[DataConfig, EvalConfig]:
    """The data configuration stored with a run, with the evaluation's overrides merged in, and the evaluation with the
    programs that the run was trained on.

    Raises:
        ConfigError: the checkpoint stores none and the overrides are not complete, or the merge does not validate.
    """
    path = Path(checkpoint) / "config.yaml"
    stored = read_yaml(path).get("data", {}) if path.exists() else {}
    if not stored and "task" not in config.data:
        raise ConfigError(
            f"{checkpoint} stores no data configuration: give one under `data` in the evaluation's config"
        )
    data = build(DataConfig, merge(stored, config.data), f"data of {checkpoint}")
    if stored and config.trained_on is None:
        task = build(DataConfig, stored, str(path)).task
        config = config.model_copy(update={"trained_on": task if isinstance(task, ProgramsTask) else None})
    return data, config


def describe(model: Any, tokenizer: TraceTokenizer, data: DataConfig) -> dict[str, Any]:
    """What a report says of a checkpoint, in words."""
    settings = model.config
    mixers = getattr(settings, "layer_mixers", None)
    kind = settings.model_type
    if mixers:
        ranges = {None: "", "signed": " in [-1, 1]", "positive": " in [0, 1]"}
        kind = " + ".join(m + ranges[eigenvalues_of(m, settings.eigenvalues)] for m in dict.fromkeys(mixers))
    task = data.task.model_dump(mode="json")
    summary = ", ".join(
        f"{key} {value}" for key, value in task.items() if key != "kind" and value not in ([], None, False)
    )
    return {
        "model": f"{kind}, {settings.num_hidden_layers} layers, width {settings.hidden_size}",
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokenizer": tokenizer.settings.describe(),
        "fingerprint": tokenizer.fingerprint,
        "weights": weights_digest(model),
        "data": f"{task['kind']} ({summary}); {data.format}, spacing {data.reveal.spacing:g}, strings {data.string_encoding}",
    }


def weights_digest(model: Any) -> str:
    """Tells checkpoints of one architecture apart, so that records of other weights are never taken for this model's.

    A hash of up to 64 evenly spaced values of every parameter, which is quick at any size.
    """
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // 64)][:64].float().cpu().numpy()
        digest.update(name.encode() + sample.tobytes())
    return digest.hexdigest()[:16]


def _claim(directory: Path, request: dict[str, Any], config: EvalConfig) -> None:
    text = json.dumps({**request, "evaluation": config.model_dump(mode="json")}, indent=1, sort_keys=True)
    path = directory / REQUEST
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UserError(f"{directory}: holds another evaluation; choose another --out or delete it")
    (directory / RECORDS).mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
