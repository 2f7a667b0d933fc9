"""Helpers of tests that start real training processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import read_metrics

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "launch" / "train.py")
DRIVER = str(ROOT / "tests" / "train" / "driver.py")
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 6]}, "format": "symbolic"},
    "tokenizer": {"kind": "symbols"},
    "model": {"mixers": ["deltanet", "attention"], "hidden_size": 16, "num_attention_heads": 2},
    "train": {"max_steps": 24, "batch_size": 8, "logging_steps": 2, "save_steps": 8, "threads": 1},
    "tracking": {"wandb": False},
}


def written(folder: Path, **changes: Any) -> str:
    path = folder / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, **changes}))
    return str(path)


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    binaries = Path(sys.executable).parent
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == code, output[-6000:]
    return output


def stopped(process: subprocess.Popen[str]) -> str:
    """A run that a signal stopped says so and is no success; launchers have exit statuses of their own."""
    output, _ = process.communicate(timeout=400)
    assert "stopped: " in output, output[-6000:]
    assert process.returncode != 0
    return output


def in_process(config: str, *overrides: str) -> Path:
    """The same run in this process: what others are compared with, without the seconds that imports take."""
    return train(load(RunConfig, config, overrides))


def launcher(processes: int, name: str = "torchrun") -> list[str]:
    """The words before the script, for so many processes."""
    binaries = Path(sys.executable).parent
    if processes == 1:
        return [sys.executable]
    count = "--nproc_per_node" if name == "torchrun" else "--num_gpus"
    return [str(binaries / name), count, str(processes), "--master_port", free_port()]


def curve(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (r["step"], r["loss"], r.get("grad_norm"), r["learning_rate"]) for r in read_metrics(folder / "metrics.jsonl")
    ]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
