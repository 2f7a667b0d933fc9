"""A command that is killed outright leaves no process, and run again gives what it would have given."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.train.launching import CONFIG as TRAINING

DATA = {
    "data": {"task": {"kind": "composition", "depth": [1, 2]}},
    "tokenizer": {"kind": "chars"},
    "write": {"splits": {"train": 800}, "shard_size": 20},
}


def start(*words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "remedy.launch.cli", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def kill(process: subprocess.Popen[bytes], seconds: float = 5.0) -> list[psutil.Process]:
    """Kill it outright; whichever of its descendants live on after so many seconds (which the test then ends)."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    alive = psutil.wait_procs(family, timeout=seconds)[1]
    alive = [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    for one in alive:
        one.kill()
    return alive


def wait_for(found: Path, pattern: str, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while len(list(found.rglob(pattern))) < count and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "data").iterdir()}


@pytest.mark.slow
def test_generate_killed_at_any_moment_leaves_no_process_and_continues_to_the_same_bytes(tmp_path: Path) -> None:
    config = tmp_path / "data.yaml"
    config.write_text(yaml.safe_dump(DATA))
    whole, out, chance = tmp_path / "whole", tmp_path / "out", random.Random(0)
    for shards_before in (1, 7, 15):
        process = start("generate", config, "--out", out, "--workers", 2)
        wait_for(out, "*.parquet", shards_before, process)
        time.sleep(chance.random() * 0.05)
        assert kill(process) == []
    assert start("generate", config, "--out", out).wait() == 0
    assert start("generate", config, "--out", whole, "--workers", 2).wait() == 0
    assert shards(out) == shards(whole)  # and nothing half-written is left beside them


@pytest.mark.slow
def test_runs_of_a_killed_experiment_end_with_a_checkpoint_and_go_on_from_it(tmp_path: Path) -> None:
    base = {key: value for key, value in TRAINING.items() if key != "name"}
    base["train"] = {**base["train"], "max_steps": 150, "save_steps": 150}
    evaluate = {"diagnostics": [{"kind": "permutation", "lengths": [2], "examples": 2}]}
    settings = {
        "name": "x",
        "output": str(tmp_path / "out"),
        "workers": 1,
        "groups": {"g": {"base": base, "runs": {"r": {}}, "evaluate": evaluate}},
    }
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(settings))
    process = start("run", tmp_path / "x.yaml")
    wait_for(tmp_path / "out", "metrics.jsonl", 1, process)
    time.sleep(1)
    assert kill(process, 30.0) == []  # it ends its step, and saves
    run = tmp_path / "out" / "g" / "r"
    (checkpoint,) = (run / "model").glob("checkpoint-*")
    assert 0 < int(checkpoint.name.split("-")[1]) < 150
    assert start("run", tmp_path / "x.yaml").wait() == 0
    assert (run / "evaluation" / "summary.json").exists()
