"""Runs that are forked from one process: each is what it is alone, and ends alone; no process outlives the experiment."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from remedy.launch.experiment import TrainingJob
from remedy.launch.fork_server import ForkServer, begin
from remedy.launch.runner import longest
from remedy.settings import build, dump, load
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.train.launching import CONFIG


def prepared(folder: Path, steps: int) -> Path:
    """The folder of a run."""
    folder.mkdir()
    settings = {"max_steps": steps, "save_steps": 10_000, "batch_size": 4, "threads": 1, "logging_steps": 1}
    run = build(RunConfig, {**CONFIG, "output": str(folder / "model"), "train": settings})
    (folder / "train.yaml").write_text(dump(run))
    return folder


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def process_of(log: Path) -> psutil.Process:
    """The run that writes there."""
    family = psutil.Process().children(recursive=True)
    return next(one for one in family if os.readlink(f"/proc/{one.pid}/fd/1") == str(log))


@pytest.mark.slow
def test_a_forked_run_has_the_bytes_of_one_alone_and_what_ends_it_ends_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    runs = {name: prepared(tmp_path / name, steps) for name, steps in (("a", 3), ("killed", 9_999), ("left", 9_999))}
    ended: dict[str, int] = {}
    with ForkServer({**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        for name in ("killed", "broken", "a", "left"):
            server.begin(name, [str(tmp_path / name), name], tmp_path / f"{name}.txt")
        wait_for(runs["killed"] / "model" / "metrics.jsonl")
        process_of(tmp_path / "killed.txt").kill()
        while len(ended) < 3:
            ended.update(server.ended(1.0))
        wait_for(runs["left"] / "model" / "metrics.jsonl")
        left = process_of(tmp_path / "left.txt")
    assert ended == {"a": 0, "killed": -9, "broken": 2}
    assert "train.yaml: " in (tmp_path / "broken.txt").read_text().splitlines()[-1]
    assert not left.is_running()
    assert "stopped: SIGTERM after step" in (tmp_path / "left.txt").read_text()
    assert list((runs["left"] / "model").glob("checkpoint-*"))

    weights = (runs["a"] / "model" / "model.safetensors").read_bytes()
    alone = train(load(RunConfig, runs["a"] / "train.yaml", [f"output={tmp_path / 'alone'}"]))
    assert (alone / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_a_run_that_cannot_be_forked_is_a_process_that_imports_for_itself(tmp_path: Path) -> None:
    pid = begin(["--help"], str(tmp_path / "log.txt"), False, signal.default_int_handler)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert "Train a run of an experiment" in (tmp_path / "log.txt").read_text()


def test_the_longest_run_begins_first_and_of_a_variant_that_no_one_knows_one() -> None:
    def job(variant: str, seed: int, steps: int) -> TrainingJob:
        run = build(RunConfig, {**CONFIG, "output": "x", "train": {"max_steps": steps}})
        return TrainingJob(name=f"{variant}{seed}", variant=variant, folder=Path("x"), train=run)

    waiting = [job(variant, seed, steps) for variant, steps in (("a", 5), ("b", 9), ("c", 5)) for seed in (0, 1)]
    began = []
    took = {"a": 1.0, "b": 2.0, "c": 3.0}
    known: dict[str, float] = {}
    while waiting:
        one = longest(waiting, known)
        waiting.remove(one)
        began.append(one.name)
        known[one.variant] = took[one.variant]
    assert began == ["b0", "a0", "c0", "c1", "b1", "a1"]
