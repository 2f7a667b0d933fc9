"""Run a program for real and yield its frames: exactly CPython's `sys.settrace` events inside the program's source.

`trace` runs in this process and trusts the program; `sandbox.Sandbox` runs the same function in a limited child.
"""

from __future__ import annotations

import builtins
import sys
import types
from dataclasses import dataclass
from typing import Any

from remedy.data_gen.program import Event, Frame, Program, ProgramError, Trace, describe

MODULE = "traced_program"
"""`__name__` of the traced module. Not `__main__`, so that a guarded script does not run before the trace starts."""


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Bounds that the tracer itself enforces: number of frames, and characters of recorded values in all."""

    frames: int = 100_000
    output: int = 16_000_000


class _Stop(BaseException):
    """Ends a traced program from inside the trace function. Not an Exception, so that most programs let it pass."""


class _Recorder:
    def __init__(self, program: Program, filename: str, limits: TraceLimits) -> None:
        self.lines = program.physical_lines()
        self.filename = filename
        self.limits = limits
        self.frames: list[Frame] = []
        self.written = 0
        self.error: ProgramError | None = None
        self.name = program.name

    def stop(self, kind: str, message: str) -> None:
        self.error = ProgramError(kind, f"{self.name}: {message}")
        sys.settrace(None)
        raise _Stop

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != self.filename:
            return None
        if event == "opcode":
            return self
        if len(self.frames) >= self.limits.frames:
            self.stop("frames", f"stopped after {self.limits.frames} frames")
        source = self.lines[frame.f_lineno - 1]
        try:
            if event == "call" or event == "line":
                shown = {name: describe(value) for name, value in frame.f_locals.items()}
                recorded = Frame(Event(event), source, shown)
                self.written += sum(len(value.text) for value in shown.values())
            else:
                result = describe(arg)
                recorded = Frame(Event(event), source, None, result)
                self.written += len(result.text)
        except Exception as error:
            where = source.strip()
            self.stop("repr", f"the repr of a value raised {type(error).__name__} at `{where}`")
        if self.written > self.limits.output:
            self.stop("output", f"stopped after {self.limits.output} characters of values")
        self.frames.append(recorded)
        return self


def trace(program: Program, limits: TraceLimits | None = None) -> Trace:
    """Run the program's marked entry point in this process and record every frame.

    An exception that leaves the entry point ends the trace normally: its EXCEPTION and RETURN frames are the record.

    Raises:
        ProgramError: the program does not compile, has no marked entry, raises while loading, has a value whose repr
            raises, or exceeds a limit.
    """
    entry = program.entry_point()
    filename = f"<{MODULE}>"
    module = types.ModuleType(MODULE)
    module.__dict__["__builtins__"] = builtins
    recorder = _Recorder(program, filename, limits or TraceLimits())
    previous_module = sys.modules.get(MODULE)
    previous_tracer = sys.gettrace()
    sys.modules[MODULE] = module  # dataclasses, typing and enum look their module up
    try:
        try:
            exec(compile(program.code, filename, "exec", dont_inherit=True), module.__dict__)
            function = module.__dict__[entry]
        except (Exception, SystemExit) as error:
            raise ProgramError("raised", f"{program.name}: raised {type(error).__name__} while loading: {error}") from None
        sys.settrace(recorder)
        try:
            function()
        except _Stop:
            pass
        except (Exception, SystemExit, GeneratorExit):
            pass
        finally:
            sys.settrace(previous_tracer)
    finally:
        if previous_module is None:
            sys.modules.pop(MODULE, None)
        else:
            sys.modules[MODULE] = previous_module
    if recorder.error is not None:
        raise recorder.error
    return Trace(program, recorder.frames)
