"""Experiments as processes: one is killed, goes on, and is not done twice; a Slurm task is signalled and queues again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from remedy.checksums import read_json
from remedy.eval.report.planned import read_selection
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import expand, is_done
from remedy.models.model_manifest import read_training
from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import read_metrics
from tests.evaluations import assert_the_same
from tests.launch.in_process import Ended, remedy
from tests.launch.sweep import SWEEP, sweep

RATES = {"1e-05": 1e-5, "0.01": 1e-2, "0.001": 1e-3}
BASE = SWEEP["groups"]["swaps"]["base"]
CHOOSING = {
    "base": {**BASE, "train": {"max_steps": 80, "batch_size": 4, "logging_steps": 1, "save_steps": 80}},
    "grid": {},
    "runs": {"a": {"model.mixers": ["gru"]}},
    "seeds": [0, 1],
    "select": {"grid": {"train.learning_rate": list(RATES.values())}, "seeds": [100]},
}
TRACKED = {
    **SWEEP["groups"]["swaps"],
    "base": {**BASE, "tracking": {"report_to": ["wandb"]}},
    "grid": {},
    "runs": {"tracked": {"model.mixers": ["gru"]}},
}
"""Beside it a group of one run that is tracked."""


def start(*words: object, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remedy.launch.cli", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(cwd), "WANDB_API_KEY": ""}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_until(found: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not found() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was killed while its second trial trained, and then run to its end."""
    folder = tmp_path_factory.mktemp("experiment")
    settings = sweep(CHOOSING, workers=1)
    settings["groups"]["tracked"] = TRACKED
    (folder / "e.yaml").write_text(yaml.safe_dump(settings))
    trials = folder / "runs" / "sweep" / "swaps" / "selection"
    first = start("run", "e.yaml", cwd=folder)
    wait_until(lambda: len(list(trials.glob("*/model/metrics.jsonl"))) == 2, first)
    family = psutil.Process(first.pid).children(recursive=True)
    first.kill()
    first.wait()
    assert psutil.wait_procs(family, timeout=60)[1] == [], "no process outlives the experiment"
    (checkpoint,) = trials.glob("a-learning_rate-0.01-seed-100/model/checkpoint-*")
    assert 0 < int(checkpoint.name.split("-")[1]) < 80
    done = {path: path.stat().st_mtime_ns for path in trials.glob("*/model/model.safetensors")}
    assert len(done) == 1
    second = start("run", "e.yaml", cwd=folder)
    said, _ = second.communicate(timeout=400)
    assert second.returncode == 0, said
    assert "3 trials that choose settings on validation" in said
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a folder of this test, in which commands run."""
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "copy"


@pytest.mark.slow
def test_runs_have_what_their_variant_chose_on_validation(finished: Path) -> None:
    out = finished / "runs" / "sweep"
    trials = out / "swaps" / "selection"
    trained = [read_training(trials / f"a-learning_rate-{rate}-seed-100" / "model") for rate in RATES]
    figures = [training["validation"]["loss"] for training in trained if training and training["validation"]]
    tried = read_selection(trials)["variants"]["a"]
    assert [one["figures"] for one in tried] == [[figure] for figure in figures]
    assert [one["chosen"] for one in tried] == [figure == min(figures) for figure in figures] == [False, True, False]
    for seed in (0, 1):
        folder = out / "swaps" / f"a-seed-{seed}"
        assert yaml.safe_load((folder / "train.yaml").read_text())["train"]["learning_rate"] == 0.01
        training = read_json(folder / "evaluation" / "evaluation.json", "")["training"]
        assert (training["chosen"], training["data_seed"]) == ({"train.learning_rate": 0.01}, seed)
    assert not list(trials.rglob("evaluat*")), "no test program was read before the choice"
    report = (out / "report" / "report.md").read_text()
    assert "### Settings tried" in report
    assert "| a | 2 |" in report  # recipe, length
    plan = read_json(out / "plan.json", "")
    assert plan["seeds"] == {"a,seed=0": 0, "a,seed=1": 1, "tracked": 0}
    assert "not as planned" not in report


@pytest.mark.slow
def test_a_run_of_an_experiment_has_the_bytes_of_one_alone(finished: Path, tmp_path: Path) -> None:
    folder = finished / "runs" / "sweep" / "swaps" / "a-seed-0"
    alone = train(load(RunConfig, folder / "train.yaml", [f"output={tmp_path / 'alone'}"]))
    assert (alone / "model.safetensors").read_bytes() == (folder / "model" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_training_and_evaluation_are_one_tracked_run(finished: Path) -> None:
    model = finished / "runs" / "sweep" / "tracked" / "tracked" / "model"
    ids = {folder.name.rsplit("-", 1)[1] for folder in (model / "wandb").glob("offline-run-*")}
    assert ids == {(model / "wandb-id").read_text()}
    tables = list((model / "wandb").glob("offline-run-*/files/media/table/test/conditions*.table.json"))
    assert "right.mean" in tables[0].read_text()
    report = finished / "runs" / "sweep" / "report"
    assert len(list((report / "wandb").glob("offline-run-*"))) == 1


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_what_is_missing_or_damaged_is_said(copy: Path) -> None:
    def again(*changes: str) -> Ended:
        return remedy(["run", "e.yaml", *changes], seconds=300)

    path = copy / "e.yaml"
    path.write_text(yaml.safe_dump(sweep(CHOOSING)))  # of tracked runs, their own processes find out
    (job, _) = expand(load(ExperimentConfig, path), "e", {("swaps", "a"): {"train.learning_rate": 1e-2}})
    assert is_done(job)
    assert job.evaluate is not None
    in_4bit = job.evaluate.model_copy(update={"load_in_4bit": True})
    for other in ({"chosen": {"train.learning_rate": 0.5}}, {"variant": "other"}, {"evaluate": in_4bit}):
        assert not is_done(job._replace(**other))  # type: ignore[arg-type]
    weights = job.model / "model.safetensors"
    times = {path: path.stat().st_mtime_ns for path in (job.folder / "log.txt", weights)}
    assert again().status == 0
    report = copy / "runs" / "sweep" / "report" / "report.md"
    rows = [line for line in report.read_text().splitlines() if line.startswith("| a ")]
    assert {path: path.stat().st_mtime_ns for path in times} == times
    record = next((job.folder / "evaluation" / "records").glob("*.parquet"))
    kept = record.read_bytes()
    record.write_bytes(kept[:-1])
    assert again().status == 0
    assert record.read_bytes() == kept
    for path in [*job.model.glob("checkpoint-*"), job.folder / "evaluation" / "generations"]:
        shutil.rmtree(path)
    weights.unlink()
    (job.folder / "log.txt").unlink()
    assert again().status == 0
    assert not (job.folder / "log.txt").exists(), "nothing is started for a run whose records are whole"
    assert [line for line in report.read_text().splitlines() if line.startswith("| a ")] == rows
    more = again("groups.swaps.evaluate.diagnostics.0.examples=11")
    assert "holds another evaluation, and the weights are gone: put them back" in more.errors
    record.write_bytes(kept[:-1])
    damaged = again()
    assert damaged.status == 2
    assert f"{record}: " in damaged.errors
    assert "the weights are gone" in damaged.errors


@pytest.mark.slow
def test_a_slurm_array_has_a_task_for_each_trial_and_run(copy: Path) -> None:
    said = remedy(["run", "e.yaml", "--slurm", "slurm"]).output
    assert "3 trials, 3 of them trained" in said
    assert "3 runs, 3 of them trained" in said
    assert "--dependency=afterok:$trials slurm/array.sbatch" in said
    assert "#SBATCH --array=0-2\n" in (copy / "slurm" / "selection.sbatch").read_text()
    script = copy / "slurm" / "array.sbatch"
    assert "#SBATCH --array=3-5\n" in script.read_text()
    (copy / "srun").write_text('#!/usr/bin/env bash\nwhile [[ "$1" == --* ]]; do shift; done\nexec "$@"\n')
    (copy / "srun").chmod(0o755)
    path = f"{copy}{os.pathsep}{os.environ['PATH']}"
    trained = {p: p.stat().st_mtime_ns for p in copy.glob("runs/sweep/swaps/*/model/model.safetensors")}
    done = subprocess.run(
        ["bash", str(script)],
        env={**os.environ, "PATH": path, "SLURM_ARRAY_TASK_ID": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert trained == {p: p.stat().st_mtime_ns for p in trained}  # it was finished
    assert "--job 6: e.yaml has 3 trials and 3 runs" in remedy(["run", "e.yaml", "--job", "6"]).errors


def test_an_array_task_has_cores_for_its_processes_and_those_that_load_data(tmp_path: Path) -> None:
    """Slurm gives a task one core if it is not asked, and its srun one if it is not told."""
    base = {**BASE, "train": {"max_steps": 2, "batch_size": 4, "dataloader_num_workers": 2}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(sweep({"base": base}, threads=3, processes=4)))
    command = ["run", tmp_path / "x.yaml", "--slurm", tmp_path / "slurm"]
    assert remedy([*command, "slurm.partition=gpu,long", "slurm.time=1-00:00:00"]).status == 0
    refused = remedy([*command, "slurm={account: 'a\n#SBATCH --wrap=x'}"])
    assert refused.status == 2
    assert "slurm.account" in refused.errors
    script = (tmp_path / "slurm" / "array.sbatch").read_text()
    subprocess.run(["bash", "-n", str(tmp_path / "slurm" / "array.sbatch")], check=True)
    assert "#SBATCH --partition=gpu,long\n#SBATCH --time=1-00:00:00\n#SBATCH --gpus-per-task=4\n" in script
    assert "#SBATCH --cpus-per-task=20\n" in script
    (line,) = [line for line in script.splitlines() if "SRUN_CPUS_PER_TASK" in line]
    for asked, given in (("unset SLURM_CPUS_PER_TASK", "20"), ("SLURM_CPUS_PER_TASK=7", "7")):
        told = subprocess.run(
            ["bash", "-uc", f"{asked}\n{line}\necho $SRUN_CPUS_PER_TASK"], capture_output=True, text=True
        )
        assert told.stdout == f"{given}\n"


@pytest.mark.slow
def test_a_slurm_task_on_several_processes_is_signalled_queues_again_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = {**BASE["train"], "max_steps": 60, "save_steps": 1000}
    group = {"base": {**BASE, "train": train}, "grid": {}, "runs": {"only": {"model.mixers": ["gru"]}}}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(sweep(group, processes=2)))
    folder = tmp_path / "runs" / "sweep" / "swaps" / "only"
    metrics = folder / "model" / "metrics.jsonl"
    job = start("run", "two.yaml", "--job", "0", cwd=tmp_path)
    wait_until(lambda: len(read_metrics(metrics)) >= 3, job)
    job.send_signal(signal.SIGUSR1)
    said, _ = job.communicate(timeout=200)
    assert job.returncode == 75, said
    assert list((folder / "model").glob("checkpoint-*"))
    assert not (folder / "model" / "complete.json").exists()
    monkeypatch.chdir(tmp_path)
    done = remedy(["run", "two.yaml"], seconds=400)
    assert done.status == 0, done
    assert [record["step"] for record in read_metrics(metrics)] == list(range(1, 61))
    alone = ["evaluate", folder / "model", folder / "evaluate.yaml", "--out", tmp_path / "alone", "--name", "only"]
    assert remedy(alone).status == 0
    assert_the_same(tmp_path / "alone", folder / "evaluation")
    conditions = [line for line in (folder / "log.txt").read_text().splitlines() if re.match(r"\d+/\d+ ", line)]
    assert len(conditions) == len(list((folder / "evaluation" / "records").iterdir()))
