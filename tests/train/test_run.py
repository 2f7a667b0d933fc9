import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from remedy.train.tracking import read_metrics

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "launch" / "train.py")
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 6]}, "format": "symbolic"},
    "tokenizer": {"kind": "symbols"},
    "model": {"mixers": ["deltanet", "attention"], "hidden": 16, "heads": 2},
    "train": {"steps": 24, "batch_size": 8, "log_every": 2, "save_every": 8, "threads": 1},
    "tracking": {"wandb": False},
}


def written(folder: Path, **changes: Any) -> str:
    path = folder / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, **changes}))
    return str(path)


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == code, output
    return output


def curve(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (r["step"], r["loss"], r.get("grad_norm"), r["learning_rate"]) for r in read_metrics(folder / "metrics.jsonl")
    ]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
def test_killed_and_resumed_the_loss_curve_is_the_same_to_the_bit(tmp_path: Path) -> None:
    # Long enough that the kill surely comes before the end, however busy the machine.
    config = written(tmp_path, train={**CONFIG["train"], "steps": 80})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finished(start([sys.executable, SCRIPT, config, f"output={whole}"]))
    assert [step for step, *_ in curve(whole)] == list(range(2, 81, 2))
    record = read_metrics(whole / "metrics.jsonl")[-1]
    assert record["tokens_per_second"] > 0
    assert 0 <= record["data_wait"] <= 1

    process = start([sys.executable, SCRIPT, config, f"output={killed}"])
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and not any(r["step"] >= 12 for r in read_metrics(killed / "metrics.jsonl")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (killed / "model.safetensors").exists()

    refused = finished(start([sys.executable, SCRIPT, config, f"output={killed}"]), code=2)
    assert "--resume" in refused
    other = [sys.executable, SCRIPT, config, f"output={killed}", "--resume", "train.learning_rate=0.5"]
    assert "train.learning_rate is 0.5 but was 0.001" in finished(start(other), code=2)
    finished(start([sys.executable, SCRIPT, config, f"output={killed}", "--resume"]))
    assert curve(killed) == curve(whole)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed"])
def test_two_processes_give_the_loss_of_one(launcher: str, tmp_path: Path) -> None:
    if launcher == "deepspeed":
        pytest.importorskip("deepspeed")
    config = written(tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    finished(start([sys.executable, SCRIPT, config, f"output={one}"]))
    binaries, port = Path(sys.executable).parent, free_port()
    if launcher == "torchrun":
        command = [str(binaries / "torchrun"), "--nproc_per_node", "2", "--master_port", port]
    else:
        command = [str(binaries / "deepspeed"), "--num_gpus", "2", "--master_port", port]
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    finished(start([*command, SCRIPT, config, f"output={two}"], PATH=path))
    assert len(curve(two)) == 12
    for (step, loss, *_), (_, expected, *_) in zip(curve(two), curve(one)):
        assert loss == pytest.approx(expected, abs=1e-4), step
    assert (two / "model.safetensors").exists()


@pytest.mark.slow
def test_wandb_is_offline_when_nobody_is_logged_in_and_the_resolved_configuration_is_saved(tmp_path: Path) -> None:
    config = written(tmp_path, tracking={"wandb": True})
    out = tmp_path / "run"
    # Nobody is logged in: an empty home has no key.
    finished(
        start([sys.executable, SCRIPT, config, f"output={out}", "train.steps=2"], HOME=str(tmp_path), WANDB_API_KEY="")
    )
    assert list(out.glob("wandb/offline-run-*"))
    resolved = yaml.safe_load((out / "config.yaml").read_text())
    assert resolved["train"]["steps"] == 2
    assert resolved["train"]["beta2"] == 0.98


def test_user_errors_are_one_line_and_exit_status_2(tmp_path: Path) -> None:
    config = written(tmp_path)
    for override, says in (
        ("train.lerning_rate=1", "unknown key 'train.lerning_rate'; did you mean 'learning_rate'?"),
        ("train.batch_size=0", "key 'train.batch_size'"),
        ("model.mixers=[atention]", "model.mixers"),
    ):
        failed = subprocess.run([sys.executable, SCRIPT, config, override], capture_output=True, text=True, check=False)
        assert failed.returncode == 2
        assert says in failed.stderr
        assert "Traceback" not in failed.stderr
    missing = subprocess.run(
        [sys.executable, SCRIPT, str(tmp_path / "no.yaml")], capture_output=True, text=True, check=False
    )
    assert missing.returncode == 2
    assert "no.yaml: cannot be read" in missing.stderr


def test_a_metrics_file_cut_in_the_middle_of_a_line_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps({"step": 1, "loss": 2.0}) + '\n{"step": 2, "lo')
    assert read_metrics(path) == [{"step": 1, "loss": 2.0}]
