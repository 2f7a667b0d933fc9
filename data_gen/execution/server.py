"""Server of the sandbox: it reads programs, forks for each, replies with frames.

Another interpreter may run it, so it and what it imports use the standard library alone. Imports stay few, since each makes
a fork slower.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from remedy.data_gen.execution import audit as guard
from remedy.data_gen.execution.folders import MOST_BYTES, MOST_FILES, remove, too_much
from remedy.data_gen.execution.program import Program, ProgramError, TraceLimits
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.execution.wire import problem_writer, receive, reply_writer, send

if TYPE_CHECKING:
    from remedy.data_gen.execution.walls import Walls

_MEGABYTE = 1 << 20
_WATCH_SECONDS = 0.2


def serve(base: str, isolation: str, *libraries: str) -> None:
    """Say hello, then answer requests until standard input ends.

    `base`: folder that is emptied for each program. `libraries`: what programs may read.
    """
    # Programs must not reach the pipes by their usual numbers.
    replies = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    base = os.path.realpath(base)
    hello, walls = _walls(base, isolation, libraries)
    send(replies, json.dumps({"python": _version(), **hello}).encode())
    gc.freeze()  # a collection in a child then leaves the pages it shares with this process alone
    parent = select.poll()
    parent.register(requests.fileno(), 0)  # reports only that the other end is closed
    folder = os.path.join(base, "program")
    while "problem" not in hello and _make(folder, base, walls) and (request := receive(requests)) is not None:
        reply, child = _run(request, folder, walls, parent)
        if not parent.poll(0):
            send(replies, reply)
        _end(child)  # while the reply is being read
    remove(base)


def _walls(base: str, isolation: str, libraries: Sequence[str]) -> tuple[dict[str, Any], Walls | None]:
    try:
        from remedy.data_gen.execution import kernel
        from remedy.data_gen.execution.walls import Walls

        kernel.control(*kernel.ADOPT_ORPHANS)
        if isolation == "none":
            return {"holds": []}, None
        os.chmod(base, 0o711)  # a program under another user id finds its own folder
        walls = Walls(base, namespaces=isolation == "bubblewrap", libraries=libraries)
        return {"holds": walls.holds}, walls
    except (ImportError, AttributeError, OSError) as error:  # no ctypes, another C library or kernel
        return {"problem": str(error)} if isolation == "landlock" else {"holds": []}, None


def _make(folder: str, base: str, walls: Walls | None) -> bool:
    """Make the next program's folder; return False if the last program prevents it."""
    # A new folder each time: one that once held many files stays large.
    for last in (False, True):
        try:
            with contextlib.suppress(OSError):
                for leftover in os.listdir(base):  # without Landlock the program's user can write there
                    remove(os.path.join(base, leftover))
            remove(folder)
            os.mkdir(folder, 0o700)
            if walls is not None:
                walls.give(folder)
            return True
        except OSError:
            if not last:
                with contextlib.suppress(OSError):
                    os.chmod(base, 0o711)
    return False


def _version() -> str:
    name = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, sys.implementation.name)
    return f"{name} {'.'.join(map(str, sys.version_info[:3]))}"


def _run(request: dict[str, Any], folder: str, walls: Walls | None, parent: select.poll) -> tuple[bytes, int]:
    """Run one program; return the unread reply and the child, which may live."""
    limits, name = request["limits"], request["name"]
    token = os.urandom(16)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _child(request, folder, _answerer(writer, token), writer, walls)
        finally:
            os._exit(1)
    os.close(writer)
    data, why = _collect(reader, limits["timeout_seconds"], limits["memory_megabytes"] * _MEGABYTE, folder, parent)
    os.close(reader)
    if data is not None and data.startswith(token):
        return data[len(token) :], child
    if data is not None:
        return _problem("forged", name, "wrote to the sandbox's pipe, in place of the tracer"), child
    if why:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if why == "time" or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return _problem("time", name, f"stopped after {limits['timeout_seconds']:g} s"), child
    if why == "files":
        folder_limit = f"{MOST_BYTES // 1_000_000} MB or {MOST_FILES:,} files"
        return _problem(
            "files", name, f"wrote over {folder_limit} into its temporary folder, or where they cannot be counted"
        ), child
    ending = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
    return _problem("killed", name, f"ended its process before its trace was complete ({ending})"), child


def _problem(kind: str, name: str, message: str) -> bytes:
    return problem_writer()(kind, f"{name}: {message}")


def _end(child: int) -> None:
    """Kill a program's process group and orphans."""
    _kill(os.killpg, child)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            for process in _children():
                _kill(os.kill, process)
            time.sleep(0.001)
    # They multiply faster than they die: with bubblewrap, this process's end is theirs.
    os._exit(1)


def _kill(kill: Callable[[int, int], None], target: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(target, signal.SIGKILL)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(process) for process in file.read().split()]
    except OSError:
        return []


def _child(
    request: dict[str, Any], folder: str, answer: Callable[[bytes], NoReturn], writer: int, walls: Walls | None
) -> None:
    limits = request["limits"]
    os.setsid()
    os.chdir(folder)
    null = os.open(os.devnull, os.O_RDWR)  # the server's own has flags and locks, which would outlive the program
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
    seconds = int(limits["timeout_seconds"]) + 1
    for limit, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, limits["memory_megabytes"] * _MEGABYTE),
        (resource.RLIMIT_FSIZE, _MEGABYTE),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 256),
    ):
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if walls is not None:
        walls.enter()
    # The server's own pipes must be out of the program's reach: it could answer in the next program's name.
    os.closerange(3, writer)
    os.closerange(writer + 1, writer + 64)
    # Out of the program's sight, but kept: to free them costs more than to trace.
    hidden = [sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "remedy"]  # noqa: F841
    program = Program(request["code"], request["name"])

    write_problem, write_trace = problem_writer(), reply_writer()

    def stop(kind: str, message: str) -> NoReturn:
        answer(write_problem(kind, f"{program.name}: {message}"))

    guard.install(folder, stop, walls is None or walls.metadata)
    try:
        trace_limits = TraceLimits.of(limits)
        traced = trace(
            program, trace_limits, request["depth"], untrusted=True, again=request["again"], plain=request["plain"]
        )
        reply = write_trace(traced)
    except ProgramError as error:
        reply = write_problem(error.kind, str(error))
    except MemoryError:
        stop("memory", f"needed more than {limits['memory_megabytes']} MB")
    answer(reply)


def _answerer(writer: int, token: bytes) -> Callable[[bytes], NoReturn]:
    """Make a function that sends a program's reply and ends its process.

    The token tells the reply from what a program wrote to the pipe.
    """
    # Bound before the program runs, which may replace what it finds in a module.
    pack, length, write, leave = struct.pack, len, os.write, os._exit

    def answer(reply: bytes) -> NoReturn:
        data = pack("<Q", length(token) + length(reply)) + token + reply
        while data:
            data = data[write(writer, data) :]
        leave(0)

    return answer


def _collect(
    reader: int, seconds: float, most: int, folder: str, parent: select.poll
) -> tuple[bytes | None, Literal["", "time", "files"]]:
    """Read the child's message; without a whole one, return None and why to kill it.

    `most`: the child's memory in bytes.
    """
    now = time.monotonic()
    deadline, watch = now + seconds, now + _WATCH_SECONDS
    data = bytearray()
    while len(data) < 8 or len(data) < 8 + struct.unpack_from("<Q", data)[0]:
        ready, _, _ = select.select([reader], [], [], max(0.0, min(deadline, watch) - now))
        now = time.monotonic()
        if now > deadline:
            return None, "time"
        if now > watch:
            if parent.poll(0):
                return None, "time"  # nobody waits for it
            if too_much(os.path.dirname(folder)):
                return None, "files"
            watch = time.monotonic() + _WATCH_SECONDS
        if not ready:
            continue
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return None, ""
        data += chunk
        # An honest child holds its message three times in memory when it sends it.
        if len(data) > most // 3:
            return None, ""
    return bytes(data[8:]), ""
