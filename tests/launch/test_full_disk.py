"""A disk that is full: one line, status 2, nothing torn; a kill: no process is left. Then it goes on, to the same bytes."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from tests.launch.in_process import Ended, remedy
from tests.train.launching import CONFIG as TRAINING

DATA = {
    "data": {"task": {"kind": "composition", "depth": [1, 2]}},
    "tokenizer": {"kind": "chars"},
    "write": {"splits": {"train": 300}, "shard_size": 100},
}
EVALUATION = {"diagnostics": [{"kind": "permutation", "lengths": [2, 3], "examples": 40}], "max_new_tokens": 60}


@contextlib.contextmanager
def room(largest: int) -> Iterator[None]:
    """Limits the files of this process, and of those that it starts."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def here(*words: object, largest: int = 0) -> Ended:
    """A command that may write no file of more than so many bytes, as on a disk with no more room."""
    with room(largest) if largest else contextlib.nullcontext():
        return remedy(words, seconds=300)


def refused(done: Ended, *says: str) -> None:
    assert done.status == 2, done.errors[-3000:]
    (line,) = [one for one in done.errors.splitlines() if one.startswith("error: ")]
    assert "Traceback" not in done.errors
    for one in says:
        assert one in line


def files(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(pattern)) if path.is_file()}


@pytest.mark.slow
def test_generate_on_a_full_disk_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(DATA))
    out, whole = tmp_path / "out", tmp_path / "whole"
    done = here("generate", tmp_path / "data.yaml", "--out", out, "--workers", 2, largest=20_000)
    refused(done, "train-0000", ".parquet: ", "make room and give the same command again")
    assert files(out, "data/*") == {}
    for folder in (out, whole):
        assert here("generate", tmp_path / "data.yaml", "--out", folder).status == 0
    assert files(out) == files(whole)


@pytest.mark.slow
def test_generate_killed_at_any_moment_leaves_no_process_and_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text(yaml.safe_dump({**DATA, "write": {"splits": {"train": 800}, "shard_size": 20}}))
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = ["generate", str(tmp_path / "data.yaml"), "--out", str(out), "--workers", "2"]
    process = subprocess.Popen([sys.executable, "-m", "remedy.launch.cli", *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.rglob("*.parquet"))) < 7 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert psutil.wait_procs(family, timeout=10)[1] == []
    for folder in (out, whole):
        assert here("generate", tmp_path / "data.yaml", "--out", folder).status == 0
    assert files(out, "data/*") == files(whole, "data/*")  # and nothing half-written is left beside them


@pytest.mark.slow
def test_training_and_evaluation_on_a_full_disk_go_on_to_the_same_bytes(tmp_path: Path) -> None:
    settings = {**TRAINING, "train": {**TRAINING["train"], "max_steps": 6, "save_steps": 3}}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "evaluate.yaml").write_text(yaml.safe_dump(EVALUATION))
    run, whole = tmp_path / "run", tmp_path / "whole"
    trained = here("train", tmp_path / "train.yaml", f"output={whole}")
    assert trained.status == 0, trained.errors
    weights = (whole / "model.safetensors").stat().st_size
    for largest in (weights // 2, weights + 2_000):  # the first cuts the weights, the second the optimizer's state
        done = here("train", tmp_path / "train.yaml", f"output={run}", "--resume", largest=largest)
        refused(done, str(run), "make room and give the same command again")
    assert here("train", tmp_path / "train.yaml", f"output={run}", "--resume").status == 0
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()

    words = ("evaluate", run, tmp_path / "evaluate.yaml", "--name", "r", "--out")
    refused(here(*words, tmp_path / "e", largest=6_000), f"{tmp_path / 'e'}/", "make room")
    assert here(*words, tmp_path / "e").status == 0
    assert here(*words, tmp_path / "f").status == 0
    assert files(tmp_path / "e") == files(tmp_path / "f")
    refused(here("report", tmp_path / "e", "--out", tmp_path / "report", largest=3_000), str(tmp_path / "report"))
    assert here("report", tmp_path / "e", "--out", tmp_path / "report").status == 0
