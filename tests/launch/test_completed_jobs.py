"""Finished runs of an experiment are not started again, with their weights or without; what is missing or damaged of them is."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from remedy.launch.completed_jobs import is_done
from remedy.launch.experiment import ExperimentConfig, expand
from remedy.settings import load
from tests.launch.in_process import Ended, remedy
from tests.launch.test_grids import SWEEP

pytestmark = pytest.mark.slow


def write(folder: Path, seeds: list[int]) -> str:
    group: dict[str, Any] = {**SWEEP["groups"]["swaps"], "grid": {}, "runs": {"gru": {"model.mixers": ["gru"]}}}
    group["base"] = {**group["base"], "tracking": {"wandb": False}}
    path = folder / "e.yaml"
    content = {**SWEEP, "output": str(folder / "out"), "groups": {"swaps": {**group, "seeds": seeds}}}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def run_all(path: str, *changes: str) -> Ended:
    """An experiment, with the time that processes which import PyTorch need on a busy machine."""
    return remedy(["run", path, *changes], seconds=300)


def strip(run: Path) -> None:
    """Leave of a run what is small: settings, what its training took, records."""
    for path in [*run.glob("model/checkpoint-*"), run / "evaluation" / "generations"]:
        shutil.rmtree(path)
    for path in (*run.glob("model/*.safetensors"), run / "log.txt"):
        path.unlink()


def test_an_experiment_goes_on_from_its_records_and_says_what_weights_are_missing_for(tmp_path: Path) -> None:
    path = write(tmp_path, [0])
    assert run_all(path).status == 0
    first, second = tmp_path / "out" / "swaps" / "gru-seed-0", tmp_path / "out" / "swaps" / "gru-seed-1"
    report = tmp_path / "out" / "report" / "report.md"
    summary = (first / "evaluation" / "summary.json").read_bytes()
    as_made = report.read_text()
    strip(first)
    shutil.rmtree(report.parent)

    assert run_all(path).status == 0
    assert not (first / "log.txt").exists(), "nothing was started for a run whose records are whole"
    assert [line for line in report.read_text().splitlines() if line.startswith("| gru")] == [
        line for line in as_made.splitlines() if line.startswith("| gru")
    ]
    assert run_all(write(tmp_path, [0, 1])).status == 0
    assert not (first / "log.txt").exists()
    assert (first / "evaluation" / "summary.json").read_bytes() == summary
    assert (second / "evaluation" / "summary.json").exists()

    more = run_all(path, "groups.swaps.evaluate.diagnostics.0.examples=11")
    assert "holds another evaluation, and the weights are gone: put them back" in more.errors
    record = next((first / "evaluation" / "records").glob("*.parquet"))
    record.write_bytes(record.read_bytes()[:-1])
    damaged = run_all(path)
    assert damaged.status == 2
    assert f"{record}: " in damaged.errors
    assert "the weights are gone" in damaged.errors


def test_a_finished_run_is_started_again_only_where_something_of_it_is_not_whole(tmp_path: Path) -> None:
    path = write(tmp_path, [0])
    assert run_all(path).status == 0
    run = tmp_path / "out" / "swaps" / "gru-seed-0"
    log, summary = run / "log.txt", (run / "evaluation" / "summary.json").read_bytes()

    def again() -> bool:
        """Whether a process was started for the run."""
        log.unlink()
        status = run_all(path).status
        started = log.exists()
        log.touch()
        assert status == (2 if "error: " in log.read_text() else 0)
        return started

    assert not again()
    (job,) = expand(load(ExperimentConfig, path), path)
    assert is_done(job)
    assert not is_done(job.model_copy(update={"chosen": {"train.learning_rate": 0.5}}))
    assert not is_done(job.model_copy(update={"variant": "other"}))
    in_4bit = job.evaluate.model_copy(update={"load_in_4bit": True})
    assert not is_done(job.model_copy(update={"evaluate": in_4bit}))
    written = next((run / "evaluation" / "generations").glob("*.parquet"))
    names = ("summary.json", "evaluation.json", "reading.json", "trace_tokenizer.json")
    for damaged in (written, *(run / "evaluation" / name for name in names)):
        damaged.unlink()
        assert again(), damaged
        assert damaged.exists()
        assert (run / "evaluation" / "summary.json").read_bytes() == summary
        assert not again()
    weights = run / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    assert again()
    assert f"{weights}: is damaged" in log.read_text()
