"""Trace untrusted programs in a child process with limits on time, memory, output and frames.

A server process that has imported only the tracer forks once per program, which costs a few milliseconds instead of an
interpreter's start. Results come back as JSON, never as pickles.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from remedy.data_gen.program import Program, ProgramError, Trace
from remedy.data_gen.sandbox_wire import frame_from, receive, send


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
        self._folder: tempfile.TemporaryDirectory[str] | None = None

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
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def trace(self, program: Program) -> Trace:
        """The program's trace.

        Raises:
            ProgramError: as `tracer.trace`, or kind `time`, `memory` or `killed` when a limit ended the process.
        """
        reply = self._ask({"code": program.code, "name": program.name, "limits": asdict(self.limits)})
        try:
            if "error" not in reply:
                return Trace(program, [frame_from(fields) for fields in reply["frames"]])
            kind, message = str(reply["error"]), str(reply["message"])
        except (ValueError, KeyError, TypeError, AttributeError):
            # The program can write to the pipe its frames travel through; what it writes is data.
            kind, message = "killed", f"{program.name}: wrote something other than frames to the sandbox"
        raise ProgramError(kind, message)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._server is None:
            self._folder = tempfile.TemporaryDirectory(prefix="remedy-", ignore_cleanup_errors=True)
            command = [sys.executable, "-m", "remedy.data_gen.sandbox_server", self._folder.name]
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
