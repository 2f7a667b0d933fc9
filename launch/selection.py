"""Choice of settings by variants: from the validation figures of finished trials, written down beside them for the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from remedy.checksums import write_json
from remedy.eval.report.planned import SELECTION, SelectionRecord, Tried
from remedy.launch.experiment import Choices, ExperimentConfig, Job
from remedy.launch.groups import SELECTION_FOLDER, Selection
from remedy.models.model_manifest import read_training
from remedy.settings import UserError
from remedy.train.config import DIVERGED


def choose(config: ExperimentConfig, trials: Sequence[Job]) -> Choices:
    """Return what each variant chooses, and write a record of it into the folder of its group's trials.

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
        if group.select is None:
            continue
        variants: dict[str, list[Tried]] = {}
        for variant in dict.fromkeys(trial.variant for trial in trials if trial.group == name):
            mine = [trial for trial in trials if (trial.group, trial.variant) == (name, variant)]
            variants[variant] = judged(group.select, mine, f"{name}, {variant}")
            choices[name, variant] = next(one["values"] for one in variants[variant] if one["chosen"])
        record: SelectionRecord = {
            "group": name,
            "metric": group.select.metric,
            "seeds": list(group.select.seeds),
            "variants": variants,
        }
        write_json(Path(config.output) / name / SELECTION_FOLDER / SELECTION, record)
    return choices


def judged(select: Selection, trials: Sequence[Job], where: str) -> list[Tried]:
    """Each setting that a variant's trials tried, with its figures; the best is chosen, of equals the first.

    A setting under which any seed's loss became NaN or infinite is not chosen.

    Raises:
        UserError: there is none without.
    """
    tried: list[Tried] = []
    ranks: list[tuple[float, float]] = []
    for values in select.points():
        found = [_validation(trial) for trial in trials if trial.chosen == values]
        means = {
            name: sum(one[name] if one else math.nan for one in found) / len(found) for name in ("loss", "exact_match")
        }
        mean = None if math.isnan(means["loss"]) else means[select.metric]
        figures = [one[select.metric] if one else None for one in found]
        tried.append({"values": values, "figures": figures, "mean": mean, "chosen": False})
        order = (means["loss"], -means["exact_match"])
        ranks.append((math.inf, math.inf) if mean is None else order if select.metric == "loss" else order[::-1])
    best = min(range(len(tried)), key=lambda place: ranks[place])
    if tried[best]["mean"] is None:
        raise UserError(
            f"select ({where}): under every setting that was tried a loss became NaN or infinite: try lower learning rates"
        )
    tried[best]["chosen"] = True
    return tried


def _validation(trial: Job) -> dict[str, float] | None:
    """The figures of the model that a trial kept; None if its loss became NaN or infinite."""
    if (trial.model / DIVERGED).exists():
        return None
    training = read_training(trial.model)
    if training is None or training["validation"] is None:
        raise UserError(
            f"{trial.model}: has no figures of validation: delete {trial.folder} and run the experiment again"
        )
    return training["validation"]
