"""Choice of settings by variants: from the validation figures of finished trials, written down beside them for the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remedy.checksums import write_json
from remedy.eval.report.planned import SELECTION, SelectionRecord, Tried
from remedy.launch.experiment import Choices, ExperimentConfig, Trial
from remedy.launch.groups import SELECTION_FOLDER, Selection
from remedy.launch.job import TRAINED
from remedy.models.model_manifest import read_training
from remedy.settings import UserError
from remedy.train.config import DIVERGED


def choose(config: ExperimentConfig, trials: Sequence[Trial]) -> Choices:
    """Return what each variant chooses, and a record of it in the folder of its group's trials.

    Raises:
        UserError: a trial is not finished, or none of a variant's has a finite loss.
    """
    missing = [number for number, trial in enumerate(trials) if not (trial.folder / TRAINED).exists()]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(trials)} trials of the selection are not finished, the first is {trials[missing[0]].name} "
            f"(--job {missing[0]}): run them first"
        )
    choices: dict[tuple[str, str], dict[str, Any]] = {}
    for name, group in config.groups.items():
        if group.select is None:
            continue
        mine = [trial for trial in trials if trial.group == name]
        variants = {
            variant: judged(group.select, [trial for trial in mine if trial.variant == variant], f"{name}, {variant}")
            for variant in dict.fromkeys(trial.variant for trial in mine)
        }
        for variant, tried in variants.items():
            choices[name, variant] = next(one["values"] for one in tried if one["chosen"])
        record: SelectionRecord = {
            "group": name,
            "metric": group.select.metric,
            "seeds": list(group.select.seeds),
            "variants": variants,
        }
        write_json(Path(config.output) / name / SELECTION_FOLDER / SELECTION, record)
    return choices


def judged(select: Selection, trials: Sequence[Trial], where: str) -> list[Tried]:
    """Each setting that a variant's trials tried, with its figures; the best is chosen, of equals the first.

    A setting under which any seed's loss became NaN or infinite is not chosen.

    Raises:
        UserError: there is none without.
    """
    tried: list[Tried] = []
    ranks: list[tuple[float, float]] = []
    for values in select.points():
        found = [_validation(trial) for trial in trials if trial.values == values]
        finite = [one for one in found if one is not None]
        whole = len(finite) == len(found)
        means = (
            {name: sum(one[name] for one in finite) / len(finite) for name in ("loss", "exact_match")} if whole else {}
        )
        figures = [one[select.metric] if one is not None else None for one in found]
        tried.append({"values": values, "figures": figures, "mean": means.get(select.metric), "chosen": False})
        best_first = (-means["exact_match"], means["loss"]) if whole else (float("inf"), float("inf"))
        ranks.append(best_first if select.metric == "exact_match" else best_first[::-1])
    best = min(range(len(tried)), key=lambda place: ranks[place])
    if tried[best]["mean"] is None:
        raise UserError(
            f"select ({where}): under every setting that was tried a loss became NaN or infinite: try lower learning rates"
        )
    tried[best]["chosen"] = True
    return tried


def _validation(trial: Trial) -> dict[str, float] | None:
    """The figures of the model that a trial kept; None if its loss became NaN or infinite."""
    folder = Path(trial.train.output)
    if (folder / DIVERGED).exists():
        return None
    training = read_training(folder)
    if training is None or training["validation"] is None:
        raise UserError(f"{folder}: has no figures of validation: delete {trial.folder} and run the experiment again")
    return training["validation"]
