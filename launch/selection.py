"""Choice of a variant's settings by its trials' validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from remedy.checksums import write_json
from remedy.eval.report.planned import SELECTION, SelectionRecord, Trial
from remedy.launch.experiment import SELECTION_FOLDER, ExperimentConfig, Selection
from remedy.launch.jobs import Choices, Job
from remedy.models.model_manifest import read_training
from remedy.settings import UserError
from remedy.train.config import DIVERGED


def choose(config: ExperimentConfig, trials: Sequence[Job]) -> Choices:
    """Return what each variant chooses by its trials, and record it.

    Raises:
        UserError: a trial is not finished, or none of a variant's has a finite loss.
    """
    missing = [number for number, trial in enumerate(trials) if not trial.is_trained]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(trials)} trials of the selection are not finished, the first is {trials[missing[0]].name} "
            f"(--job {missing[0]}): run them first"
        )
    choices = {}
    for name, group in config.groups.items():
        if (select := group.select) is None:
            continue
        variants: dict[str, list[Trial]] = {}
        for variant in dict.fromkeys(trial.variant for trial in trials if trial.group == name):
            trials_of_variant = [trial for trial in trials if (trial.group, trial.variant) == (name, variant)]
            variants[variant] = rank_settings(select, trials_of_variant, f"{name}, {variant}")
            choices[name, variant] = next(
                trial_record["values"] for trial_record in variants[variant] if trial_record["chosen"]
            )
        record = SelectionRecord(group=name, metric=select.metric, seeds=list(select.seeds), variants=variants)
        write_json(Path(config.output) / name / SELECTION_FOLDER / SELECTION, record)
    return choices


def rank_settings(select: Selection, trials: Sequence[Job], where: str) -> list[Trial]:
    """Return a variant's tried settings with figures; the first best is chosen.

    A setting with a diverged seed is not chosen.

    Raises:
        UserError: every setting diverged.
    """
    tried: list[Trial] = []
    ranks: list[tuple[float, float]] = []
    for values in select.points():
        validations = [_validation(trial) for trial in trials if trial.chosen == values]
        finite = [metrics for metrics in validations if metrics is not None]
        loss, exact = (sum(metrics[key] for metrics in finite) / max(1, len(finite)) for key in ("loss", "exact_match"))
        figures = [metrics[select.metric] if metrics is not None else None for metrics in validations]
        # A mean over the other seeds would reward a setting for the seed that diverged.
        mean = (loss if select.metric == "loss" else exact) if len(finite) == len(validations) else None
        tried.append({"values": values, "figures": figures, "mean": mean, "chosen": False})
        order = (loss, -exact) if select.metric == "loss" else (-exact, loss)
        ranks.append((math.inf, math.inf) if mean is None else order)
    best = tried[min(range(len(tried)), key=lambda index: ranks[index])]
    if best["mean"] is None:
        raise UserError(
            f"select ({where}): under every setting that was tried a loss became NaN or infinite: try lower learning rates"
        )
    best["chosen"] = True
    return tried


def _validation(trial: Job) -> dict[str, float] | None:
    """Return a trial's validation figures; None if it diverged."""
    if (trial.model / DIVERGED).exists():
        return None
    training = read_training(trial.model)
    if training is None or training["validation"] is None:
        raise UserError(
            f"{trial.model}: has no figures of validation: delete {trial.folder} and run the experiment again"
        )
    return training["validation"]
