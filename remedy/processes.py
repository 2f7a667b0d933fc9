"""Process ranks, and child processes that ignore the working folder's modules."""

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
"""The option that removes the working folder, which may hold a stranger's `json.py`, from the search path."""
# multiprocessing starts workers, fork server and resource tracker by `python -c`, which searches the working folder
# first, and sends the parent's search path later. This private function gives the options of all three (CPython 3.11
# to 3.13).
_inherited = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]
multiprocessing.util._args_from_interpreter_flags = lambda: [*_inherited(), SAFE_PATH]  # type: ignore[attr-defined]


def ask(interpreter: str, code: str, *arguments: str, given: str = "") -> str:
    """Return a short program's output, run isolated in an empty folder.

    Raises:
        ConfigError: it prints nothing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, "-I", "-c", code, *arguments]
        finished = subprocess.run(
            command, cwd=folder, input=given, capture_output=True, text=True, errors="replace", timeout=60
        )
    if finished.returncode or not finished.stdout:
        raise ConfigError(
            f"tracer.python: {interpreter} is no working Python of version 3.10 or later ({one_line(finished.stderr)[-200:]})"
        )
    return finished.stdout


def own_command(code: str, *arguments: str) -> list[str]:
    """Return a command that runs code with this interpreter and search path."""
    return [sys.executable, SAFE_PATH, "-u", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", *arguments]


def module_command(module: str, *arguments: str) -> list[str]:
    """Return a command like `python -m` with this process's search path."""
    return own_command(f"from runpy import run_module; run_module({module!r}, None, '__main__', True)", *arguments)


def redirect_output(path: str | os.PathLike[str]) -> None:
    """Write this process's output and errors to a file from now on."""
    with open(path, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


class Process(NamedTuple):
    """One process of a run, with its ranks over all machines and locally."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_main(self) -> bool:
        """Say if this process writes for all."""
        return self.rank == 0


def this_process() -> Process:
    """Read this process's ranks from torchrun's variables, if any.

    Raises:
        UserError: they are incomplete or contradict each other.
    """
    variables_set = {key: os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE") if key in os.environ}
    try:
        size = int(variables_set.get("WORLD_SIZE", 1))
        alone = {"RANK": "0", "LOCAL_RANK": "0"} if size == 1 else {}
        rank, local_rank = (int({**alone, **variables_set}[key]) for key in ("RANK", "LOCAL_RANK"))
    except (KeyError, ValueError):
        rank = local_rank = size = -1
    if not (0 <= rank < size and 0 <= local_rank < size):
        variables = " ".join(f"{key}={value}" for key, value in variables_set.items())
        raise UserError(
            f"{variables} in the environment do not say which of several processes this is: start them with torchrun, or "
            "unset all three"
        )
    return Process(rank, local_rank, size)


def neighbours() -> int:
    """Return the number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", this_process().world_size))


def end_with_parent(parent: int, end: Callable[[], object]) -> None:
    """Call `end` in a thread once the parent has ended."""

    # Polls, since Linux's PR_SET_PDEATHSIG already signals the end of the parent's *thread*.
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        end()

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


@contextlib.contextmanager
def worker_pool(workers: int, begin: Callable[..., None], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Start processes that call `begin(*given)` first and end with this one.

    Raises:
        UserError: a process was killed.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(
            workers, context, initializer=_start, initargs=(os.getpid(), begin, arguments)
        ) as pool:
            try:
                yield pool
            finally:  # after an error or interrupt, only started work is finished
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, perhaps for want of memory: give the same command with fewer --workers; it goes on with what "
            "is not written yet"
        ) from None


def _start(parent: int, begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    # A terminal interrupts workers too. They ignore it, so that the parent can let them finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent, lambda: os._exit(1))
    begin(*arguments)
