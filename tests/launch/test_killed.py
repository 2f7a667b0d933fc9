"""A command that is killed outright leaves no process, and run again gives what it would have given."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.launch.in_process import remedy

DATA = {
    "data": {"task": {"kind": "composition", "depth": [1, 2]}},
    "tokenizer": {"kind": "chars"},
    "write": {"splits": {"train": 800}, "shard_size": 20},
}


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "data").iterdir()}


@pytest.mark.slow
def test_generate_killed_at_any_moment_leaves_no_process_and_continues_to_the_same_bytes(tmp_path: Path) -> None:
    config = tmp_path / "data.yaml"
    config.write_text(yaml.safe_dump(DATA))
    whole, out = tmp_path / "whole", tmp_path / "out"
    words = ["generate", str(config), "--out", str(out), "--workers", "2"]
    process = subprocess.Popen([sys.executable, "-m", "remedy.launch.cli", *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.rglob("*.parquet"))) < 7 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert psutil.wait_procs(family, timeout=10)[1] == []
    for folder in (out, whole):
        assert remedy(["generate", config, "--out", folder], seconds=100).status == 0
    assert shards(out) == shards(whole)  # and nothing half-written is left beside them
