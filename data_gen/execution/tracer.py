"""Run a program for real and yield its frames: exactly CPython's `sys.settrace` events inside the program's source.

`trace` runs in this process and trusts the program; `sandbox.Sandbox` runs the same function in a limited child.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from remedy.data_gen.execution.program import Event, Frame, Program, ProgramError, Trace, describe

MODULE = "traced_program"
"""`__name__` of the traced module. Not `__main__`, so that a guarded script does not run before the trace starts."""


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """Bounds that the tracer itself enforces: number of frames, and characters of recorded values in all."""

    frames: int = 100_000
    output: int = 16_000_000


_EVENTS = {event.value: event for event in Event}


class _Stop(BaseException):
    """Ends a traced program from inside the trace function. Not an Exception, so that most programs let it pass."""


class _Recorder:
    def __init__(self, program: Program, filename: str, limits: TraceLimits) -> None:
        self.lines = program.physical_lines()
        self.filename = filename
        self.limits = limits
        self.frames: list[Frame] = []
        self.error: ProgramError | None = None
        self.name = program.name

    def stop(self, kind: str, message: str) -> NoReturn:
        """End the program."""
        self.error = ProgramError(kind, f"{self.name}: {message}")
        sys.settrace(None)
        raise _Stop

    def tracer(self, depth: int | None) -> Callable[[types.FrameType, str, Any], Any]:
        """The trace function: a closure, since it runs at every line."""
        filename, lines, limits, frames = self.filename, self.lines, self.limits, self.frames
        deepest = sys.maxsize if depth is None else depth
        written, level = 0, -1

        def record(frame: types.FrameType, event: str, arg: Any) -> Any:
            nonlocal written, level
            if frame.f_code.co_filename != filename:
                return None
            if event == "call":
                if level == deepest:
                    return None
                level += 1
            elif event == "return":
                level -= 1
            if len(frames) >= limits.frames:
                self.stop("frames", f"stopped after {limits.frames} frames")
            source = lines[frame.f_lineno - 1]
            try:
                if event == "line" or event == "call":
                    shown = {}
                    for name, value in frame.f_locals.items():
                        shown[name] = described = describe(value)
                        written += len(described.text)
                    recorded = Frame(_EVENTS[event], source, shown)
                else:
                    result = describe(arg)
                    written += len(result.text)
                    recorded = Frame(_EVENTS[event], source, None, result)
            except RecursionError:
                self.stop("recursion", f"recursed too deeply to be traced, at `{source.strip()}`")
            except Exception as error:
                self.stop("repr", f"the repr of a value raised {type(error).__name__}, at `{source.strip()}`")
            if written > limits.output:
                self.stop("output", f"stopped after {limits.output} characters of values")
            frames.append(recorded)
            return record

        return record


def trace(program: Program, limits: TraceLimits | None = None, depth: int | None = None) -> Trace:
    """Run the program's marked entry point in this process and record its frames, of calls down to level `depth` if given
    (0: the entry point's own), which makes the trace of a program that runs too long short.

    An exception that leaves the entry point ends the trace normally: its EXCEPTION and RETURN frames are the record.

    Raises:
        ProgramError: the program does not compile, has no marked entry, raises while loading, has a value whose repr
            raises, exceeds a limit, or runs out of memory, which says more of the machine than of the program.
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
            code = compile(program.code, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ProgramError("syntax", f"{program.name}: does not compile: {error}") from None
        try:
            exec(code, module.__dict__)
            function = module.__dict__[entry]
        except (Exception, SystemExit) as error:
            raise ProgramError(
                "raised", f"{program.name}: raised {type(error).__name__} while loading: {error}"
            ) from None
        tracer = recorder.tracer(depth)
        raised = False
        sys.settrace(tracer)
        try:
            function()
        except _Stop:
            pass
        except MemoryError:
            raise ProgramError("memory", f"{program.name}: ran out of memory") from None
        except (Exception, SystemExit, GeneratorExit):
            raised = True
        finally:
            # Python drops a trace function that cannot be called for want of stack; so may the program.
            lost = recorder.error is None and sys.gettrace() is not tracer
            sys.settrace(previous_tracer)
    finally:
        if previous_module is None:
            sys.modules.pop(MODULE, None)
        else:
            sys.modules[MODULE] = previous_module
    if recorder.error is not None:
        raise recorder.error
    if lost:
        raise ProgramError("recursion", f"{program.name}: recursed too deeply to be traced, or changed the tracer")
    return Trace(program, recorder.frames, raised=raised)
