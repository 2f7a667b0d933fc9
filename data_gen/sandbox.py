"""Trace untrusted programs in a child process with limits on time, memory, output and frames.

A server process that has imported only the tracer forks once per program, which costs a few milliseconds instead of an
interpreter's start. Results come back as JSON, never as pickles.
"""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO, Any

from remedy.data_gen.program import Event, Frame, Program, ProgramError, Trace, Value


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Wall and CPU seconds, megabytes of address space, recorded frames, and characters of recorded values."""

    seconds: float = 10.0
    megabytes: int = 1024
    frames: int = 100_000
    output: int = 16_000_000


class Sandbox:
    """A warmed server that traces one program after another, each in a fork of its own. Use as a context manager."""

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        self.limits = limits or SandboxLimits()
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            for pipe in (self._server.stdin, self._server.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            self._server.kill()
            self._server.wait()
            self._server = None

    def trace(self, program: Program) -> Trace:
        """The program's trace.

        Raises:
            ProgramError: as `tracer.trace`, or kind `time`, `memory` or `killed` when a limit ended the process.
        """
        reply = self._ask({"code": program.code, "name": program.name, "limits": asdict(self.limits)})
        try:
            if "error" not in reply:
                return Trace(program, [_frame(fields) for fields in reply["frames"]])
            kind, message = str(reply["error"]), str(reply["message"])
        except (ValueError, KeyError, TypeError, AttributeError):
            # The program can write to the pipe its frames travel through; what it writes is data.
            kind, message = "killed", f"{program.name}: wrote something other than frames to the sandbox"
        raise ProgramError(kind, message)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._server is None:
            command = [sys.executable, "-m", "remedy.data_gen.sandbox_server"]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        try:
            send(self._server.stdin, json.dumps(request).encode())
            reply = receive(self._server.stdout)
        except OSError:
            reply = None
        except ValueError:
            reply = {}
        if reply is None:
            self.close()  # the next program gets a new server
            return {"error": "killed", "message": f"{request['name']}: ended the sandbox's server"}
        return reply


def send(pipe: IO[bytes], data: bytes) -> None:
    """Write one length-prefixed message, which is JSON."""
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> dict[str, Any] | None:
    """Read one message; None at the end of the stream."""
    header = pipe.read(8)
    if len(header) < 8:
        return None
    (size,) = struct.unpack("<Q", header)
    data = pipe.read(size)
    if len(data) < size:
        return None
    message: dict[str, Any] = json.loads(data)
    return message


def frame_fields(frame: Frame) -> list[Any]:
    """A frame as JSON; the inverse of what `Sandbox.trace` reads."""
    shown = None if frame.locals is None else [[name, *value] for name, value in frame.locals.items()]
    return [frame.event.value, frame.source, shown, frame.value]


def _frame(fields: list[Any]) -> Frame:
    event, source, shown, value = fields
    return Frame(
        Event(event),
        source,
        None if shown is None else {name: Value(text, kind) for name, text, kind in shown},
        None if value is None else Value(*value),
    )
