"""Processes: which of several this one is, those that it starts, of which none imports what lies in the working folder, and those that end
with the one that began them."""

from __future__ import annotations

import contextlib
import multiprocessing.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from remedy.messages import one_line
from remedy.settings import ConfigError, UserError

SAFE_PATH = "-P"
"""Keeps the working folder out of an interpreter's search path, where a stranger's `json.py` would be found first."""
# Spawned workers, the fork server and the resource tracker start by `-c`. It is these options that all of them are given, and a worker's
# own search path, which is its parent's, comes only after it has imported much.
_inherited = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]
multiprocessing.util._args_from_interpreter_flags = lambda: [*_inherited(), SAFE_PATH]  # type: ignore[attr-defined]


def ask(interpreter: str, code: str, *words: str, given: str = "") -> str:
    """Return what a short program prints in any interpreter, from an empty folder; it sees that interpreter's own packages alone.

    Raises:
        ConfigError: it prints nothing or fails, as it does before Python 3.10.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, "-I", "-c", code, *words]
        done = subprocess.run(
            command, cwd=folder, input=given, capture_output=True, text=True, errors="replace", timeout=60
        )
    if done.returncode or not done.stdout:
        raise ConfigError(
            f"tracer.python: {interpreter} is no working Python of version 3.10 or later ({one_line(done.stderr)[-200:]})"
        )
    return done.stdout


def own_command(code: str, *words: str) -> list[str]:
    """Return the command that runs code in an interpreter like this one, with this one's search path."""
    return [sys.executable, SAFE_PATH, "-u", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", *words]


def module_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module as `python -m` does, with this process's search path."""
    return own_command(f"from runpy import run_module; run_module({module!r}, None, '__main__', True)", *words)


class Process(NamedTuple):
    """One process of a run: its number over all machines and on its own, and how many there are over all."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_main(self) -> bool:
        """Say if this is the one that writes for all."""
        return self.rank == 0


def this_process() -> Process:
    """From `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, which torchrun, deepspeed and launch/train.sbatch set; alone without them.

    Raises:
        UserError: they do not say which of several processes this is.
    """
    told = {key: os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE") if key in os.environ}
    try:
        size = int(told.get("WORLD_SIZE", 1))
        alone = {"RANK": "0", "LOCAL_RANK": "0"} if size == 1 else {}
        rank, local_rank = (int({**alone, **told}[key]) for key in ("RANK", "LOCAL_RANK"))
    except (KeyError, ValueError):
        rank = local_rank = size = -1
    if not (0 <= rank < size and 0 <= local_rank < size):
        said = " ".join(f"{key}={value}" for key, value in told.items())
        raise UserError(
            f"{said} in the environment do not say which of several processes this is: start them with torchrun, or unset all three"
        )
    return Process(rank, local_rank, size)


def neighbours() -> int:
    """Return how many of the processes are on this machine, from torchrun's `LOCAL_WORLD_SIZE`; without it all of them."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", this_process().world_size))


def end_with_parent(parent: int, end: Callable[[], object]) -> None:
    """Call `end`, in a thread of its own, once `parent` is no longer this process's parent: nobody would wait for its work.

    A look twice a second, since Linux's signal for it (PR_SET_PDEATHSIG) comes already when the parent's *thread* ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        end()

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


@contextlib.contextmanager
def worker_pool(workers: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """So many processes, each of which calls `begin` with what is `given` (picklable) before its first work. They end with this
    process, however that ends; what they are writing then, the next run clears away.

    Raises:
        UserError: one of them was killed.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(os.getpid(), begin, given)) as pool:
            try:
                yield pool
            finally:  # at an error or an interrupt, what is begun is the last
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, perhaps for want of memory: give the same command with fewer --workers; it goes on with what "
            "is not written yet"
        ) from None


def _start(parent: int, begin: Callable[..., None], given: tuple[Any, ...]) -> None:
    # A terminal sends interrupts to all; the parent lets what is begun be finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent, lambda: os._exit(1))
    begin(*given)
