"""Sandbox that traces untrusted programs in child processes with limits.

A server that has imported only the tracer forks once per program, in milliseconds. Results are JSON, never pickles.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import multiprocessing
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import psutil
from pydantic import Field, model_validator

from remedy.data_gen.execution.folders import remove
from remedy.data_gen.execution.isolation import (
    WAY_OUT,
    Isolation,
    described,
    environment,
    find_interpreter,
    resolve,
    server_command,
)
from remedy.data_gen.execution.program import Program, Trace
from remedy.data_gen.execution.replies import read
from remedy.data_gen.execution.wire import problem_writer, receive, receive_bytes, send
from remedy.settings import ConfigError, Settings

log = logging.getLogger(__name__)

_MARGIN_SECONDS = 15.0
_LOOK_SECONDS = 0.5


class TracerConfig(Settings):
    """Settings of runs of real programs: interpreter, isolation and limits."""

    python: str | None = None
    """The interpreter, by path or name; by default the one that runs this. 3.12 and later inline comprehensions: other traces."""
    isolation: Isolation = "auto"
    """The isolation of traced programs. `auto`: the strongest that works here, `bubblewrap`, else `landlock` (with seccomp), else an
    error. `none`: limits only; a program can do all that you can. `trusted`: in this process, without limits; sets of strings have
    this process's order."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """Wall-clock and CPU seconds of one program."""
    memory_megabytes: int = Field(default=1024, ge=64, le=10_000_000)
    """Address space of one program."""
    max_frames: int = Field(default=200_000, ge=1, le=1_000_000_000)
    """Frames of one trace."""
    max_value_characters: int = Field(default=16_000_000, ge=1, le=1_000_000_000_000)
    """Characters of all values recorded in one trace."""
    unreadable: Literal["placeholder", "refuse"] = "placeholder"
    """Values whose `repr` raises, such as an object before its `__init__` has ended. `placeholder`: written like an object without a
    `__repr__`, and counted. `refuse`: the program has the outcome `repr`."""
    objects: Literal["repr", "attributes"] = "repr"
    """Objects without a `__repr__` of their own. `repr`: `<traced_program.Point object>`, as code world models do. `attributes`: with
    their attributes, `<Point x=1 y=2>`, at most 16 of each and 4 levels; a cycle is `<Point ...>`. NumPy's arrays and pandas' tables
    are then written by shape, types and first values."""

    @model_validator(mode="after")
    def _in_process(self) -> TracerConfig:
        if self.isolation == "trusted" and self.python is not None:
            raise ValueError(
                "isolation trusted runs programs in this process: remove `python`, or choose another isolation"
            )
        if self.isolation == "trusted":
            self.refuse_idle(dict.fromkeys(("timeout_seconds", "memory_megabytes"), "with isolation trusted"))
        return self


class Environment(NamedTuple):
    """Interpreter and isolation of a program's run."""

    python: str
    isolation: str


class Sandbox:
    """Server that traces programs, each in its own fork; a context manager.

    `libraries`: folders and files that programs may read.
    """

    def __init__(self, config: TracerConfig | None = None, libraries: Sequence[str] = ()) -> None:
        self.config = config or TracerConfig()
        self._libraries = tuple(libraries)
        self._lock = threading.Lock()  # one program at a time: replies do not say whose they are
        self._server: subprocess.Popen[bytes] | None = None
        self._tree: list[psutil.Process] = []
        self._environment = Environment("", "")
        self._served = 0
        self._deadline = math.inf
        self._remove: Callable[[], object] = lambda: None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its processes, and remove its folder."""
        if self._server is None:
            return
        for pipe in (self._server.stdin, self._server.stdout, self._server.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._server.wait(timeout=2)  # it ends with its input
        except subprocess.TimeoutExpired:
            self._kill()
        self._kill(tree_alone=True)
        self._server.wait()
        self._server = None
        self._remove()

    def _kill(self, tree_alone: bool = False) -> None:
        assert self._server is not None
        processes = list(self._tree)
        with contextlib.suppress(psutil.Error):
            processes += [] if tree_alone else psutil.Process(self._server.pid).children(recursive=True)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()

    @property
    def environment(self) -> Environment:
        """Return interpreter and isolation; start the server if needed."""
        with self._lock:
            self._start()
        return self._environment

    def trace(self, program: Program, depth: int | None = None) -> Trace:
        """Trace a program; `depth` as of `tracer.trace`.

        Raises:
            ProgramError: the program has no trace; `kind` says why.
            ConfigError: the server does not start.
        """
        return read(self.reply(program, depth), program)

    def reply(self, program: Program, depth: int | None = None, again: bool = False, plain: bool = False) -> bytes:
        """Return the reply that `replies.read` reads; arguments as of `tracer.trace`."""
        limits = self.config.model_dump(exclude={"python", "isolation"})
        about = {"code": program.code, "name": program.name, "depth": depth, "again": again, "plain": plain}
        request = {**about, "limits": limits}
        with self._lock:
            reply = self._exchange(request)
            if reply is None and self._served > 1:
                reply = self._exchange(request)  # an earlier program may have harmed the server
        return problem_writer()("killed", f"{program.name}: ended the sandbox's server") if reply is None else reply

    def _exchange(self, request: dict[str, Any]) -> bytes | None:
        self._start()
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._served += 1
        # The server has its own deadline. This is for one that a program stopped.
        self._deadline = time.monotonic() + self.config.timeout_seconds + _MARGIN_SECONDS
        try:
            send(self._server.stdin, json.dumps(request).encode())
            reply = receive_bytes(self._server.stdout)
        except OSError:
            reply = None
        finally:
            self._deadline = math.inf
        if reply is None:
            self.close()
        return reply

    def _start(self) -> None:
        if self._server is not None:
            return
        name = resolve(self.config.isolation)
        folder = tempfile.mkdtemp(prefix="remedy-")
        self._remove = weakref.finalize(self, remove, folder)
        self._served = 0
        self._server = subprocess.Popen(
            server_command(self.config.python, self.config.isolation, folder, self._libraries),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(folder),
            cwd=folder,
        )
        assert self._server.stdout is not None
        assert self._server.stderr is not None
        hello = receive(self._server.stdout)
        if hello is None:
            last_line = self._server.stderr.read().decode(errors="replace").strip().split("\n")[-1]
            self.close()
            python = find_interpreter(self.config.python).path
            raise ConfigError(
                f"tracer: {python} does not start the sandbox (Python 3.10 or later is needed): {last_line}"
            )
        if "problem" in hello:
            self.close()
            raise ConfigError(f"task.tracer.isolation {name}: {hello['problem']}; {WAY_OUT}")
        process = psutil.Process(self._server.pid)
        self._tree = [process, *process.children(recursive=True)]
        self._environment = Environment(str(hello["python"]), described(name, hello["holds"]))
        announce(self._environment.isolation)
        threading.Thread(target=_watch, args=(weakref.ref(self), self._server), daemon=True).start()


# In one thread, since a timer per program costs more.
def _watch(box: weakref.ref[Sandbox], server: subprocess.Popen[bytes]) -> None:
    while server.returncode is None and (sandbox := box()) is not None:
        if time.monotonic() > sandbox._deadline and sandbox._server is server:
            sandbox._kill()
            return
        del sandbox
        time.sleep(_LOOK_SECONDS)


@lru_cache(maxsize=8)
def announce(isolation: str) -> None:
    if multiprocessing.parent_process() is None:
        log.warning("programs run under isolation %s", isolation)
