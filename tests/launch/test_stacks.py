"""Seeds of an experiment that are trained at once: which, in what folders, and what is left to the runs' own processes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from remedy.launch import runner
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import expand, folders_of, prepare, stacks, trials
from remedy.launch.slurm import write_scripts
from remedy.models.model_manifest import check_model, read_training
from remedy.settings import ConfigError, UserError, build, load
from remedy.train.config import RunConfig
from tests.launch.sweep import SWEEP

GROUP = SWEEP["groups"]["swaps"]
TRAIN = {"max_steps": 2, "batch_size": 4, "logging_steps": 1, "threads": 1, "stacked": 2, "learning_rate": 1e-3}


def experiment(folder: Path, group: dict[str, Any] | None = None, **changes: Any) -> ExperimentConfig:
    base = {**GROUP["base"], "train": TRAIN, "model": {"mixers": ["gru"], "hidden_size": 16}}
    group = {**GROUP, "base": base, "grid": {}, "runs": {"a": {}, "b": {"train.learning_rate": 1e-2}}, **(group or {})}
    return build(ExperimentConfig, {**SWEEP, "output": str(folder), "groups": {"g": group}, **changes}, "e")


def names(config: ExperimentConfig) -> list[list[str]]:
    return [[member.name for member in stack.members] for stack in stacks(expand(config, "e"))]


def test_seeds_of_a_recipe_are_trained_as_many_at_a_time_as_they_say(tmp_path: Path) -> None:
    config = experiment(tmp_path, {"seeds": [0, 7, 3, 4, 5]})
    assert names(config) == [
        [f"{run},seed={one}", f"{run},seed={two}"] for run in "ab" for one, two in ((0, 7), (3, 4))
    ]
    assert {one.train.train.stacked for one in expand(config, "e")} == {None}  # each is the run that it is alone
    assert not stacks(expand(experiment(tmp_path, {"seeds": [0, 7], "runs": {"a": {"train.stacked": None}}}), "e"))
    select = {"grid": {"train.weight_decay": [0.0, 0.1]}, "seeds": [8, 9]}
    found = stacks(trials(experiment(tmp_path, {"seeds": [0, 1], "runs": {}, "select": select}), "e"))
    assert [[member.train.train.seed for member in stack.members] for stack in found] == [[8, 9], [8, 9]]


@pytest.mark.parametrize(
    ("group", "changes", "says"),
    [
        ({"seeds": [0]}, {}, "a,seed=0: train.stacked 2 does nothing with one seed"),
        ({"seeds": [0, 1]}, {"processes": 2}, "seeds are trained at once by one process, not by 2"),
    ],
)
def test_what_would_not_be_stacked_is_refused(
    group: dict[str, Any], changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says):
        expand(experiment(tmp_path, group, **changes), "e")


def test_a_slurm_array_has_a_task_for_each_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a,seed=0: train\.stacked 2: a task of an array is one run"):
        write_scripts(experiment(tmp_path, {"seeds": [0, 1]}), "e.yaml", [], tmp_path / "slurm")


def test_they_are_trained_in_the_runs_own_folders_and_one_that_is_lost_is_left_to_its_own_process(
    tmp_path: Path,
) -> None:
    config = experiment(tmp_path, {"seeds": [0, 7], "runs": {}})
    jobs = expand(config, "e")
    (stack,) = stacks(jobs)
    prepare(stack)
    folders = folders_of(stack)
    assert folders == [one.folder for one in jobs]

    runner._train_together(folders)
    assert [one.is_trained for one in jobs] == [True, True]
    shutil.rmtree(folders[1] / "model")  # as one that is lost leaves none
    check_model(folders[0] / "model")
    training = read_training(folders[0] / "model")
    assert training is not None
    assert (training["seed"], training["data_seed"], training["steps"]) == (0, 0, 2)
    assert load(RunConfig, folders[0] / "model" / "config.yaml") == jobs[0].train
    assert not stacks(jobs)  # one is left, and trained by its own process
    runner._train(jobs[1].train, folders[1], 1)
    check_model(folders[1] / "model")
