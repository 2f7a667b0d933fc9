"""Selection: each variant chooses on validation with seeds of its own, and is then run with fresh ones."""

from pathlib import Path
from typing import Any

import pytest

from remedy.checksums import write_json
from remedy.eval.report.planned import Trial, read_selection
from remedy.eval.report.runs import trials_table
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job, expand, trials
from remedy.launch.selection import choose, rank_settings
from remedy.models.model_manifest import SEAL, TRAINING
from remedy.settings import ConfigError, UserError, build
from remedy.train.config import DIVERGED
from tests.launch.sweep import SWEEP

GROUP: dict[str, Any] = {
    **SWEEP["groups"]["swaps"],
    "base": {
        **SWEEP["groups"]["swaps"]["base"],
        "train": {"max_steps": 30, "batch_size": 4, "logging_steps": 10, "threads": 1},
        "tracking": {"report_to": []},
    },
    "grid": {"model.mixers": [["gru"], ["deltanet"]]},
    "seeds": [0, 1],
    "select": {"grid": {"train.learning_rate": [1e-5, 1e-2]}, "seeds": [100]},
}


def experiment(folder: Path, **changes: Any) -> ExperimentConfig:
    return build(ExperimentConfig, {**SWEEP, "output": str(folder), "groups": {"swaps": {**GROUP, **changes}}}, "e")


def test_trials_are_every_variant_at_every_point_with_seeds_that_no_run_has(tmp_path: Path) -> None:
    config = experiment(tmp_path)
    tried, jobs = trials(config, "e"), expand(config, "e")
    assert [trial.name for trial in tried][:3] == [
        "mixers=gru,learning_rate=1e-05,seed=100",
        "mixers=gru,learning_rate=0.01,seed=100",
        "mixers=deltanet,learning_rate=1e-05,seed=100",
    ]
    assert {(trial.train.train.seed, trial.train.train.data_seed) for trial in tried} == {(100, 100)}
    assert {trial.train.train.evaluate_every for trial in tried} == {30}
    assert {job.train.train.data_seed for job in jobs} == {0, 1}
    assert {trial.train.data.seed for trial in tried} == {job.train.data.seed for job in jobs}
    assert {job.train.train.evaluate_every for job in jobs} == {None}
    choices = {
        ("swaps", f"mixers={mixer}"): {"train.learning_rate": rate}
        for mixer, rate in (("gru", 1e-2), ("deltanet", 1e-5))
    }
    made = expand(config, "e", choices)
    assert [job.train.train.learning_rate for job in made] == [1e-2, 1e-2, 1e-5, 1e-5]
    assert made[0].chosen == {"train.learning_rate": 1e-2}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": []}, "select needs `seeds`"),
        ({"seeds": [100]}, r"select\.seeds: 100 is one of `seeds`"),
        ({"select": {"grid": {"data.reveal.spacing": [1, 2]}, "seeds": [9]}}, "cannot be compared where `data`"),
        ({"runs": {"a": {"train.learning_rate": 1}}}, "learning_rate does nothing, since `select` sets it"),
    ],
)
def test_selections_that_choose_nothing_or_by_the_wrong_thing_are_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        experiment(tmp_path, **changes)


def test_the_model_as_it_is_chooses_nothing(tmp_path: Path) -> None:
    runs = {"as-it-is": {"train.max_steps": 0}, "trained": {}}
    config = experiment(tmp_path, runs=runs, grid={})
    assert {trial.variant for trial in trials(config, "e")} == {"trained"}
    for choices in (None, {("swaps", "trained"): {"train.learning_rate": 1e-2}}):
        jobs = expand(config, "e", choices)
        assert [job.train.train.total_steps for job in jobs] == [0, 0, 30, 30]
        assert [bool(job.chosen) for job in jobs] == [False, False, True, True]


def finish(trial: Job, figures: tuple[float, float] | None) -> None:
    """Make a trial's folder what training leaves: its loss and exact match, or that it diverged."""
    output = trial.model
    output.mkdir(parents=True)
    if figures is None:
        (output / DIVERGED).write_text("step 3\n")
    else:
        write_json(output / TRAINING, {"validation": {"loss": figures[0], "exact_match": figures[1]}})
        (output / SEAL).touch()


@pytest.mark.parametrize(
    ("metric", "figures", "chosen"),
    [
        ("loss", [(0.5, 0.1), (0.2, 0.0), (0.2, 0.3)], 2),  # of equals, the one with more exact matches
        ("exact_match", [(0.5, 0.1), (0.2, 0.9), (0.1, 0.9)], 2),  # of equals, the one with less loss
        ("loss", [None, (9.0, 0.9), None], 1),
    ],
)
def test_the_best_on_validation_is_chosen(
    tmp_path: Path, metric: str, figures: list[tuple[float, float] | None], chosen: int
) -> None:
    rates = [1e-3, 2e-3, 4e-3]
    select = {"grid": {"train.learning_rate": rates}, "seeds": [100], "metric": metric}
    config = experiment(tmp_path, select=select, grid={}, runs={"a": {}})
    tried = trials(config, "e")
    with pytest.raises(UserError, match=r"3 of 3 trials of the selection are not finished.* \(--job 0\)"):
        choose(config, tried)
    for trial, found in zip(tried, figures, strict=True):
        finish(trial, found)
    assert choose(config, tried) == {("swaps", "a"): {"train.learning_rate": rates[chosen]}}
    _, *rows = trials_table(read_selection(tmp_path / "swaps" / "selection"))
    assert [row[-1] for row in rows] == ["chosen" if place == chosen else "" for place in range(3)]
    assert [row[2] == "no finite loss" for row in rows] == [found is None for found in figures]


def test_a_setting_that_diverges_with_one_seed_is_not_chosen_and_seeds_are_averaged(tmp_path: Path) -> None:
    select = {"grid": {"train.learning_rate": [1, 2, 4]}, "seeds": [7, 8]}
    config = experiment(tmp_path, select=select, grid={}, runs={"a": {}})
    tried = trials(config, "e")
    for trial, loss in zip(tried, (0.4, 0.2, 0.1, None, 0.35, 0.15), strict=True):
        finish(trial, None if loss is None else (loss, 0.0))
    group = config.groups["swaps"]
    assert group.select is not None
    found: list[Trial] = rank_settings(group.select, tried, "a")
    assert [(one["mean"], one["chosen"]) for one in found] == [(pytest.approx(0.3), False), (None, False), (0.25, True)]
    for trial in tried:
        (trial.model / DIVERGED).touch()
    with pytest.raises(UserError, match="under every setting that was tried a loss became NaN"):
        rank_settings(group.select, tried, "a")
