"""Sweeps: grids, seeds put together, tracking, Slurm arrays, and runs on several processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from remedy.launch.experiment import ExperimentConfig, expand
from remedy.launch.groups import Group, members
from remedy.settings import ConfigError, build, load
from remedy.train.tracking import read_metrics
from tests.evaluations import assert_the_same
from tests.launch.in_process import remedy as in_process

ROOT = Path(__file__).resolve().parents[2]
SWEEP: dict[str, Any] = {
    "name": "sweep",
    "output": "runs/sweep",
    "groups": {
        "swaps": {
            "base": {
                "data": {
                    "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 3, "distinct_values": True},
                    "format": "symbolic",
                    "context": False,
                },
                "tokenizer": {"kind": "symbols"},
                "model": {"num_hidden_layers": 1, "hidden_size": 16},
                "train": {"max_steps": 2, "batch_size": 4, "logging_steps": 1, "threads": 1},
                "tracking": {"wandb": True},
            },
            "grid": {"model.mixers": [["gru"], ["deltanet"]], "train.seed": [0, 1]},
            "evaluate": {
                "diagnostics": [
                    {"kind": "permutation", "lengths": [2, 3], "forcing": ["action_forced"], "examples": 10}
                ],
                "threads": 1,
            },
        }
    },
}


def remedy(*words: str, cwd: Path, code: int = 0, **environment: str) -> str:
    command = [sys.executable, "-m", "remedy.launch.cli", *words]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_a_grid_is_every_combination_and_a_seed_is_no_part_of_the_variant() -> None:
    group = Group(
        base={}, evaluate={}, runs={"a": {"x": 1}, "b": {}}, grid={"model.mixers": (["gru"],), "train.seed": (0, 1)}
    )
    found = members(group)
    assert [m.name for m in found] == [f"{run},mixers=gru,seed={seed}" for run in "ab" for seed in (0, 1)]
    assert [m.variant for m in found] == ["a,mixers=gru"] * 2 + ["b,mixers=gru"] * 2
    assert found[0].changes == {"x": 1, "model.mixers": ["gru"], "train.seed": 0}
    (alone,) = members(Group(base={}, evaluate={}, runs={"only": {}}))
    assert (alone.name, alone.variant) == ("only", "only")
    with pytest.raises(ValueError, match="give `runs`, `grid` or `seeds`"):
        Group(base={}, evaluate={})
    with pytest.raises(ValueError, match=r"grid\.x has no values"):
        Group(base={}, evaluate={}, grid={"x": ()})


def test_seeds_of_a_group_initialise_and_order_the_data_and_another_world_is_another_variant() -> None:
    swaps = {**SWEEP["groups"]["swaps"], "grid": {"data.seed": [5, 6]}, "seeds": [0, 1]}
    jobs = expand(ExperimentConfig.model_validate({**SWEEP, "groups": {"swaps": swaps}}), "s")
    assert [(job.name, job.variant) for job in jobs][:3] == [
        ("data.seed=5,seed=0", "data.seed=5"),
        ("data.seed=5,seed=1", "data.seed=5"),
        ("data.seed=6,seed=0", "data.seed=6"),
    ]
    assert [(job.train.train.seed, job.train.train.data_seed, job.train.data.seed) for job in jobs[:2]] == [
        (0, 0, 5),
        (1, 1, 5),
    ]
    (alone, _) = members(Group(base={}, evaluate={}, seeds=(0, 1)))
    assert (alone.name, alone.variant) == ("seed=0", "all")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": [1, 1]}, "seeds has a value twice"),
        ({"seeds": [1]}, "grid.train.seed does nothing, since `seeds` sets it"),
        (
            {"seeds": [1], "grid": {}, "runs": {"a": {"train.data_seed": 3}}},
            "runs.a: train.data_seed does nothing, since `seeds` sets it",
        ),
    ],
)
def test_seeds_that_would_do_nothing_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(ExperimentConfig, {**SWEEP, "groups": {"swaps": {**SWEEP["groups"]["swaps"], **changes}}}, "s")


def test_runs_are_tracked_under_the_experiment_and_a_wrong_value_names_its_run(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    jobs = expand(load(ExperimentConfig, path), "sweep")
    assert jobs[0].train.tracking.group == "sweep"
    assert jobs[0].train.tracking.tags == ("swaps", "mixers=gru")
    wrong = load(ExperimentConfig, path, ["groups.swaps.grid={model.num_hidden_layers: [1, 0]}"])
    with pytest.raises(ConfigError, match=r"groups\.swaps\.runs\.num_hidden_layers=0: key 'model\.num_hidden_layers'"):
        expand(wrong, "sweep")


@pytest.mark.slow
def test_a_sweep_runs_once_puts_seeds_together_and_tracks_each_run_as_one(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    private = {"HOME": str(tmp_path), "WANDB_API_KEY": "", "OMP_NUM_THREADS": "1"}
    remedy("run", "sweep.yaml", "workers=2", cwd=tmp_path, **private)
    runs = tmp_path / "runs" / "sweep"
    table = (runs / "report" / "report.md").read_text()
    assert "### Permutation programs: right answers" in table
    assert "| mixers=gru | 2 |" in table  # recipe, length
    verdicts = table.split("![Every comparison")[1].split("##")[0]
    assert [line.split("<br>")[0].split(" | ")[0] for line in verdicts.splitlines() if line.startswith("| mixers")] == [
        "| mixers=deltanet (length 2)",  # one for a variant, not for each of its runs
        "| mixers=deltanet (length 3)",
    ]
    assert (runs / "report" / "figures" / "forest.png").exists()

    for model in sorted(runs.glob("swaps/*/model")):  # training and evaluation are one offline run, to sync later
        ids = {folder.name.rsplit("-", 1)[1] for folder in (model / "wandb").glob("offline-run-*")}
        assert ids == {(model / "wandb-id").read_text()}
        tables = list((model / "wandb").glob("offline-run-*/files/media/table/test/conditions*.table.json"))
        assert tables
        assert "right.mean" in tables[0].read_text()
    assert list((runs / "report" / "wandb").glob("offline-run-*/files/media/images/*.png"))

    output = remedy("run", "sweep.yaml", "--slurm", "slurm", cwd=tmp_path)
    assert "4 runs, 4 of them trained" in output
    script = (tmp_path / "slurm" / "array.sbatch").read_text()
    assert "--array=0-3" in script
    subprocess.run(["bash", "-n", str(tmp_path / "slurm" / "array.sbatch")], check=True)
    (tmp_path / "srun").write_text('#!/usr/bin/env bash\nwhile [[ "$1" == --* ]]; do shift; done\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    trained = {p: p.stat().st_mtime_ns for p in runs.glob("swaps/*/model/model.safetensors")}
    done = subprocess.run(
        ["bash", str(tmp_path / "slurm" / "array.sbatch")],
        env={**os.environ, **private, "PATH": path, "SLURM_ARRAY_TASK_ID": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert trained == {p: p.stat().st_mtime_ns for p in trained}  # it was finished
    assert "--job 4: sweep.yaml has 4 runs" in remedy("run", "sweep.yaml", "--job", "4", cwd=tmp_path, code=2)


def test_an_array_task_has_cores_for_its_processes_and_those_that_load_data(tmp_path: Path) -> None:
    """Slurm gives a task one core if it is not asked, and its srun one if it is not told."""
    base = {**SWEEP["groups"]["swaps"]["base"], "train": {"max_steps": 2, "batch_size": 4, "dataloader_num_workers": 2}}
    swaps = {**SWEEP["groups"]["swaps"], "base": base}
    settings = {**SWEEP, "threads": 3, "processes": 4, "groups": {"swaps": swaps}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(settings))
    assert in_process(["run", tmp_path / "x.yaml", "--slurm", tmp_path / "slurm"]).status == 0
    script = (tmp_path / "slurm" / "array.sbatch").read_text()
    assert "#SBATCH --gpus-per-task=4\n" in script
    assert "#SBATCH --cpus-per-task=20\n" in script
    (line,) = [line for line in script.splitlines() if "SRUN_CPUS_PER_TASK" in line]
    for asked, given in (("unset SLURM_CPUS_PER_TASK", "20"), ("SLURM_CPUS_PER_TASK=7", "7")):
        told = subprocess.run(
            ["bash", "-uc", f"{asked}\n{line}\necho $SRUN_CPUS_PER_TASK"], capture_output=True, text=True
        )
        assert told.stdout == f"{given}\n"


@pytest.mark.slow
def test_an_array_task_that_is_signalled_in_its_evaluation_may_be_queued_again(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({**SWEEP, "threads": 3}))
    changes = ["groups.swaps.base.train.max_steps=0", "groups.swaps.evaluate.diagnostics.0.examples=50000"]
    changes.append("groups.swaps.base.tracking.wandb=false")
    words = [sys.executable, "-m", "remedy.launch.cli", "run", "one.yaml", *changes, "--job", "0"]
    job = subprocess.Popen(
        words, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True
    )
    while job.poll() is None and not list(tmp_path.glob("runs/sweep/swaps/*/evaluation/evaluation.json")):
        time.sleep(0.02)
    assert psutil.Process(job.pid).environ()["OMP_NUM_THREADS"] == "3"
    job.send_signal(signal.SIGUSR1)
    _, errors = job.communicate(timeout=200)
    assert job.returncode == 75
    assert "stopped: SIGUSR1; what is written stays" in errors


@pytest.mark.slow
def test_an_experiment_trains_and_evaluates_on_several_processes(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    group = {**SWEEP["groups"]["swaps"], "grid": {}, "runs": {"only": {"train.deepspeed": {"stage": 2}}}}
    train = {**group["base"]["train"], "max_steps": 200, "save_steps": 1000}
    group["base"] = {**group["base"], "train": train, "tracking": {"wandb": False}}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({**SWEEP, "processes": 2, "groups": {"swaps": group}}))
    folder = tmp_path / "runs" / "sweep" / "swaps" / "only"
    # As a Slurm array would start and signal it: the job passes the signal on, its processes save, and it may be queued again.
    words = [sys.executable, "-m", "remedy.launch.cli", "run", "two.yaml", "--job", "0"]
    job = subprocess.Popen(words, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while job.poll() is None and len(read_metrics(folder / "model" / "metrics.jsonl")) < 3:
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=200) == 75
    assert (folder / "model" / "latest").exists()
    assert not (folder / "trained").exists()
    remedy("run", "two.yaml", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert [r["step"] for r in read_metrics(folder / "model" / "metrics.jsonl")] == list(range(1, 201))
    settings = json.loads((folder / "model" / "deepspeed.json").read_text())
    assert settings["train_micro_batch_size_per_gpu"] * 2 == settings["train_batch_size"] == 4
    assert (folder / "evaluation" / "summary.json").exists()
    alone = ["evaluate", folder / "model", folder / "evaluate.yaml", "--out", tmp_path / "alone", "--name", "only"]
    assert in_process(alone).status == 0
    assert_the_same(tmp_path / "alone", folder / "evaluation")
    conditions = [line for line in (folder / "log.txt").read_text().splitlines() if re.match(r"\d+/\d+ ", line)]
    assert len(conditions) == len(list((folder / "evaluation" / "records").iterdir()))
