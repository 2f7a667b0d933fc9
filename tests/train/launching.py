"""Helpers of tests that start real training processes."""

import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import yaml

from remedy.launch.runner import IMPORTED
from remedy.processes import redirect_output
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
    "tracking": {"report_to": []},
}


def written(folder: Path, **changes: Any) -> str:
    path = folder / f"{changes.get('name', 'tiny')}.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, **changes}))
    return str(path)


class Started:
    """Processes of a script, forked from one that has imported what it needs: as real as a launcher's, without the seconds that imports
    take. Where one fails, the others are ended, as torchrun ends them."""

    def __init__(self, words: list[str], processes: int, environment: Mapping[str, str]) -> None:
        self._logs = tempfile.TemporaryDirectory()
        context, port = multiprocessing.get_context("forkserver"), free_port()
        context.set_forkserver_preload([*(f"remedy.{name}" for name in IMPORTED), "deepspeed"])
        self._processes = []
        for rank in range(processes):
            variables = {**os.environ, **environment}
            if processes > 1:
                variables |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
                variables |= {"LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            log = Path(self._logs.name, str(rank))
            self._processes.append(context.Process(target=_run, args=(words, variables, os.getcwd(), log)))
            self._processes[-1].start()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def ended(self, seconds: float = 400) -> tuple[int, str]:
        """The exit status of the first that failed, or 0, and what all of them printed."""
        deadline, status = time.monotonic() + seconds, 0
        waiting = {process.sentinel: process for process in self._processes}
        while waiting:
            for sentinel in wait(list(waiting), deadline - time.monotonic()):
                process = waiting.pop(sentinel)  # type: ignore[arg-type]
                process.join()
                if process.exitcode and not status:
                    status = process.exitcode
                    for other in waiting.values():
                        other.terminate()
            if time.monotonic() > deadline:
                self.kill()
                deadline = float("inf")
        with self._logs as folder:
            return status, "".join(path.read_text() for path in sorted(Path(folder).iterdir()))


def _run(words: list[str], variables: dict[str, str], folder: str, log: Path) -> None:
    redirect_output(log)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    torch.set_num_threads(1)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def start(words: list[str], processes: int = 1, **environment: str) -> Started:
    """Start a script with its arguments, on so many processes that know of each other."""
    return Started(words, processes, environment)


def finished(started: Started, code: int = 0) -> str:
    status, output = started.ended()
    assert status == code, output[-6000:]
    return output


def stopped(started: Started) -> None:
    """A run that a signal stopped says so and is no success."""
    status, output = started.ended()
    assert "stopped: " in output, output[-6000:]
    assert status != 0


def launched(command: list[str], **environment: str) -> tuple[int, str]:
    """The exit status and output of a command that starts interpreters of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": path, **environment}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400, check=False
    )
    return done.returncode, done.stdout


def in_process(config: str, *overrides: str) -> Path:
    """The same run in this process: what others are compared with, without the seconds that imports take."""
    return train(load(RunConfig, config, overrides))


def curve(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (r["step"], r["loss"], r.get("grad_norm"), r["learning_rate"]) for r in read_metrics(folder / "metrics.jsonl")
    ]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
