"""Common parts of the queue's jobs: cells that are measured one after another until the time is up, and their records.

A job is a module of this folder with `cells(rehearse)`, what it measures in order of worth, and `measure(**given)`, which yields the
facts of one cell as they are found. Every fact is one line of `NAME.jsonl`, written at once. A cell that fails is recorded with its
error and the next one begins; one that the end of the time cuts off is measured anew by the next call with the same folder, and those
that came to their end are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

JOBS = ("stacked_seeds", "kernels", "characters", "sparse_states", "reveals", "failing", "large", "executor")
"""In the order in which they are run."""
TOGETHER = 8
"""Processes that compile at a time."""

START = 30.0
"""Seconds that a process of its own may take more."""

Facts = dict[str, Any]


class Cell(NamedTuple):
    """One measurement of a job. `seconds`: it does not begin with less time left, and ends after them if it is `apart`."""

    name: str
    given: Facts
    """What `measure` is called with."""
    seconds: float = 10.0
    apart: bool = False
    """Whether it has a process of its own, which a wrong kernel may end."""
    together: bool = False
    """Whether it is measured beside its neighbours: what counts is what it finds, and not its time."""


class Job(NamedTuple):
    name: str
    cells: Callable[[bool], list[Cell]]
    measure: Callable[..., Iterator[Facts]]
    question: str


def job(name: str) -> Job:
    """Return the job of a name, whose module's docstring begins with its question."""
    module = import_module(f"benchmarks.gpu.{name}")
    return Job(name, module.cells, module.measure, str(module.__doc__).split("\n\n")[0].replace("\n", " "))


def ended(path: Path) -> set[str]:
    """Return the cells that came to their end in a file of records."""
    return {line["cell"] for line in _lines(path) if "seconds" in line}


def _lines(path: Path) -> list[Facts]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Records:
    """The lines of a job in a folder; of a cell that was cut off none is kept."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock, self.ended = path, threading.Lock(), ended(path)
        kept = [line for line in _lines(path) if line.get("cell") in self.ended | {None}]
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def write(self, **facts: Any) -> None:
        """One line, printed and at once on the disk."""
        line = json.dumps(facts)
        with self.lock, self.path.open("a") as file:
            file.write(line + "\n")
            print(line, flush=True)


def run(name: str, out: Path, minutes: float, rehearse: bool) -> bool:
    """Measure the cells of a job that the folder does not hold yet; whether all of them are now measured."""
    out.mkdir(parents=True, exist_ok=True)
    chosen, records = job(name), Records(out / f"{name}.jsonl")
    end = time.monotonic() + 60 * minutes
    records.write(job=name, rehearsal=rehearse, minutes=minutes, **machine())
    now, over, spoilt = [""], threading.Event(), threading.Event()
    threading.Thread(target=_minutely, args=(over, now, end), daemon=True).start()

    def do(cell: Cell) -> None:
        now[0] = cell.name
        if spoilt.is_set() and not cell.apart:
            cell = cell._replace(apart=True, seconds=cell.seconds + START)
        if end - time.monotonic() >= (0 if rehearse else cell.seconds):
            error = _measured(chosen, cell, records, end, rehearse)
            if error is not None and not cell.apart and type(error).__name__ != "OutOfMemoryError":
                spoilt.set()  # what CUDA did wrong may stay with this process

    todo = [cell for cell in chosen.cells(rehearse) if cell.name not in records.ended]
    for together, group in groupby(todo, lambda cell: cell.together):
        if together:
            with ThreadPoolExecutor(TOGETHER) as pool:
                list(pool.map(do, group))
        else:
            list(map(do, group))
    over.set()
    missing = [cell.name for cell in todo if cell.name not in records.ended]
    records.write(job=name, cells=len(records.ended), missing=missing, seconds_left=round(end - time.monotonic()))
    return not missing


def _minutely(over: threading.Event, now: list[str], end: float) -> None:
    while not over.wait(60):
        print(json.dumps({"now": now[0], "seconds_left": round(end - time.monotonic())}), flush=True)


def _measured(chosen: Job, cell: Cell, records: Records, end: float, rehearse: bool) -> Exception | None:
    """Write its facts, and at the end its seconds and why it failed; no end if the time cut it off. Returns what it failed of."""
    begin = time.monotonic()
    limit = min(cell.seconds, end - begin) if not rehearse else 100.0
    found = _apart(chosen.name, cell, limit, rehearse) if cell.apart else chosen.measure(**cell.given)
    failed, why = None, {}
    try:
        for facts in found:
            records.write(cell=cell.name, **facts)
            if time.monotonic() > end:
                return None
    except Exception as error:  # the other cells are still wanted
        failed, where = error, traceback.extract_tb(error.__traceback__)[-1]
        why = {"failed": f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"[:500]}
    if failed is None or time.monotonic() < end - 1:
        records.write(cell=cell.name, **why, seconds=round(time.monotonic() - begin, 1))
        records.ended.add(cell.name)
    return failed


def _apart(name: str, cell: Cell, limit: float, rehearse: bool) -> Iterator[Facts]:
    """Yield the facts that a process of its own prints, which ends with all that it started."""
    command = [sys.executable, "-m", "benchmarks.gpu", name, "--cell", cell.name, *["--rehearse"] * rehearse]
    with tempfile.TemporaryFile("w+", errors="replace") as complaint:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaint, text=True, start_new_session=True, errors="replace"
        )
        timer = threading.Timer(limit, _end, [process])
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"'):
                    yield json.loads(line)
            code = process.wait()
        finally:
            alive = timer.is_alive()
            timer.cancel()
            _end(process)
            process.wait()
        if code:
            complaint.seek(0)
            last = (complaint.read().strip().splitlines() or ["nothing said"])[-1]
            raise RuntimeError(f"its process ended with {code}: {last}" if alive else f"not through in {limit:.0f} s")


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it and all that it started have ended
        os.killpg(process.pid, signal.SIGKILL)


def one(name: str, cell: str, rehearse: bool) -> None:
    """Print the facts of one cell, in the process that is its own."""
    chosen = job(name)
    (given,) = (each.given for each in chosen.cells(rehearse) if each.name == cell)
    for facts in chosen.measure(**given):
        print(json.dumps(facts), flush=True)


def machine() -> Facts:
    """Return the card and the versions."""
    import torch

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    found: Facts = {"card": card, "python": platform.python_version(), "begun": time.strftime("%Y-%m-%d %H:%M")}
    for package in ("torch", "triton", "transformers", "flash-linear-attention"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
