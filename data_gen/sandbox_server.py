"""The sandbox's server process: reads programs from standard input, forks for each, replies with its frames.

Imports stay few and light: with subprocess, tempfile and shutil in it a process takes 1.5 times as long to fork.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from typing import Any

from remedy.data_gen.program import Program, ProgramError
from remedy.data_gen.sandbox_wire import frame_fields, receive, send
from remedy.data_gen.tracer import TraceLimits, trace

_MEGABYTE = 1 << 20


def serve(folder: str) -> None:
    """Answer requests until standard input ends; programs run in `folder`, which is emptied after each."""
    replies = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    gc.freeze()  # a collection in a child then leaves the pages it shares with this process alone
    while (request := receive(requests)) is not None:
        send(replies, _run(request, folder))
        _reap()


def _run(request: dict[str, Any], folder: str) -> bytes:
    """The reply as JSON: the child's own, passed on unread, or what ended it."""
    limits, name = request["limits"], request["name"]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _child(request, folder, writer)
        finally:
            os._exit(1)
    os.close(writer)
    data, timed_out = _collect(reader, limits["seconds"], limits["megabytes"] * _MEGABYTE)
    os.close(reader)
    _kill_group(child)
    if os.listdir(folder):
        _empty(folder)
    if data is not None:
        return data  # the child dies while the next program starts; `serve` reaps it
    _, status = os.waitpid(child, 0)
    if timed_out or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return json.dumps({"error": "time", "message": f"{name}: stopped after {limits['seconds']:g} s"}).encode()
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
    message = f"{name}: ended its process before its trace was complete ({how})"
    return json.dumps({"error": "killed", "message": message}).encode()


def _empty(folder: str) -> None:
    import shutil  # rarely needed, and heavy

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def _child(request: dict[str, Any], folder: str, writer: int) -> None:
    limits = request["limits"]
    os.setsid()
    os.chdir(folder)
    # The server's own pipes must be out of the program's reach: it could answer in the next program's name.
    os.closerange(3, writer)
    os.closerange(writer + 1, writer + 64)
    seconds = int(limits["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (limits["megabytes"] * _MEGABYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    program = Program(request["code"], request["name"])
    reply: dict[str, Any]
    try:
        traced = trace(program, TraceLimits(limits["frames"], limits["output"]))
        reply = {"frames": [frame_fields(frame) for frame in traced.frames]}
    except ProgramError as error:
        reply = {"error": error.kind, "message": str(error)}
    except MemoryError:
        reply = {"error": "memory", "message": f"{program.name}: needed more than {limits['megabytes']} MB"}
    data = json.dumps(reply).encode()
    data = struct.pack("<Q", len(data)) + data
    while data:
        data = data[os.write(writer, data) :]
    os._exit(0)


def _collect(reader: int, seconds: float, most: int) -> tuple[bytes | None, bool]:
    """The child's message, or None if it ended or time ran out (then true) before the message was whole.

    A message longer than `most`, the child's own memory, is no honest one: reading on would only fill ours.
    """
    deadline = time.monotonic() + seconds
    data = bytearray()
    while len(data) < 8 or len(data) < 8 + struct.unpack_from("<Q", data)[0]:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready or time.monotonic() > deadline:
            return None, True
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return None, False
        data += chunk
        if len(data) > most:
            return None, False
    return bytes(data[8:]), False


def _kill_group(child: int) -> None:
    for target in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        try:
            target()
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    sys.setrecursionlimit(1000)
    serve(sys.argv[1])
