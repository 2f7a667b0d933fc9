"""A process that imports once what runs need, and is forked for each of them: imports alone would cost every run seconds.

It never computes, so that a fork finds no threads of PyTorch. When its requests end, with the experiment or because that was killed, so
do the runs, each with a checkpoint; and a run ends likewise when this process is gone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from remedy.launch.console import start
from remedy.settings import UserError

IMPORTED = ("train.run", "eval.checkpoint", "eval.evaluate", "launch.evaluate", "launch.job")
"""What a run imports when it comes to it."""
LOOK_SECONDS = 0.05


class ForkServer:
    """The other side of it, as a context; the process is started with the first run."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the runs that there still are, and wait for them."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()

    def begin(self, name: str, words: Sequence[str], log: Path) -> None:
        """Begin a run: `words` as `remedy.launch.job` takes them, `log` for all that it prints."""
        if self._process is None:
            command = [sys.executable, "-m", "remedy.launch.fork_server"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, env=self.environment)
        assert self._process.stdin is not None
        request = {"name": name, "words": [*words, "--parent", str(self._process.pid)], "log": str(log)}
        with contextlib.suppress(BrokenPipeError):  # `ended` says that it is gone
            self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def ended(self, seconds: float) -> Iterator[tuple[str, int]]:
        """The runs that ended, with their exit statuses, once there are any or so many seconds have passed.

        Raises:
            UserError: the process itself ended.
        """
        if self._process is None:
            return
        replies = self._process.stdout
        assert replies is not None
        while select.select([replies], [], [], seconds)[0]:
            line = replies.readline()
            if not line:
                raise UserError(
                    f"the process that runs are forked from ended (exit status {self._process.wait()}); give the same command again: "
                    "runs go on from their last checkpoints"
                )
            name, status = json.loads(line)
            yield name, status
            seconds = 0


def serve() -> None:
    """Fork a process for each request on stdin, and say on stdout how it ended; in that process, become the run."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no reply
    interrupts = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # of a terminal: the experiment has them too, and ends this
    forks = _forks()
    names: dict[int, str] = {}
    requests = os.fdopen(0, "rb", buffering=0, closefd=False)
    while True:
        if select.select([requests], [], [], LOOK_SECONDS)[0]:
            line = requests.readline()
            if not line:
                break
            request = json.loads(line)
            pid = begin(request["words"], request["log"], forks, interrupts)
            if not pid:
                os.close(replies)
                sys.argv[1:] = request["words"]
                from remedy.launch.job import app

                return start(app)
            names[pid] = request["name"]
        while names and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            reply = json.dumps([names.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])])
            os.write(replies, reply.encode() + b"\n")
    for pid in names:
        os.kill(pid, signal.SIGTERM)
    for pid in names:
        os.waitpid(pid, 0)


def _forks() -> bool:
    """Import what runs need, and say whether they are to be forked. Otherwise each is a process that imports for itself: on other
    systems than Linux, whose libraries may not survive a fork, and with CUDA, whose state does not."""
    if sys.platform != "linux":
        return False
    for name in IMPORTED:
        importlib.import_module(f"remedy.{name}")
    import torch

    # Of threads there are only those of jemalloc and OpenBLAS, which see to forks themselves.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()  # pages that no collection writes to stay shared
    return not torch.cuda.is_available()


def begin(words: Sequence[str], log: str, forks: bool, interrupts: Any) -> int:
    """The process of a run, or 0 in that process itself, if it is a fork. `interrupts`: its handler of SIGINT."""
    with open(log, "wb") as file, open(os.devnull, "rb") as nothing:
        streams = [(file.fileno(), 2), (file.fileno(), 1), (nothing.fileno(), 0)]
        if not forks:
            return os.posix_spawn(
                sys.executable,
                [sys.executable, "-m", "remedy.launch.job", *words],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, *stream) for stream in streams],
                setsigdef=[] if interrupts is signal.SIG_IGN else [signal.SIGINT],
            )
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, interrupts)
            for stream in streams:
                os.dup2(*stream)
        return pid


if __name__ == "__main__":
    serve()
