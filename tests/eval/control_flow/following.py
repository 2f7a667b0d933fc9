"""Follows true traces through control flow, and counts what that allows."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from remedy.data_gen.execution.program import Program, ProgramError, Trace, TraceLimits
from remedy.data_gen.execution.tracer import trace
from remedy.eval.control_flow import END, ControlFlow, Exceptions, Step


@dataclass
class Counted:
    """Over frames after the first, and the end."""

    traces: int = 0
    frames: int = 0
    ambiguous: int = 0
    """Frames where the program alone allows several."""
    most: int = 0
    """How many it allows at most."""

    @property
    def share_certain(self) -> float:
        return 1 - self.ambiguous / self.frames


def true_trace(program: Program, frames: int = 20_000) -> Trace | None:
    """What happens when a program runs in this process; None where it has no trace."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coroutines that are never awaited
        try:
            return trace(program, TraceLimits(frames))
        except ProgramError:
            return None


def follow(found: Trace, exceptions: Exceptions = "all", most: int = 500, into: Counted | None = None) -> Counted:
    """Walk along the first frames of a trace. Fails where the control flow excludes what happened."""
    counted = into or Counted()
    flow = ControlFlow(found.program)
    walk = flow.start(exceptions)
    counted.traces += 1
    for number, frame in enumerate([*found.frames, None][:most]):
        candidates = {(step.event, flow.source(step)) for step in walk.allowed()}
        true = END if frame is None else Step(frame.event, frame.line)
        where = f"{found.program.name}, frame {number}: {frame}\n{found.program.code}"
        assert true in walk.allowed(), f"the program allows {candidates}: {where}"
        if number:
            counted.frames += 1
            counted.most = max(counted.most, len(candidates))
            counted.ambiguous += len(candidates) > 1
        after = walk.after(true.event, "" if frame is None else frame.source)
        assert after is not None, where
        walk = after
    return counted


def follow_all(programs: Iterable[Program], exceptions: Exceptions = "all", most: int = 500) -> Counted:
    """Follow all that have a trace; with exceptions `caught`, all whose entry returns."""
    counted = Counted()
    for program in programs:
        found = true_trace(program)
        if found is not None and not (found.raised and exceptions == "caught"):
            follow(found, exceptions, most, counted)
    return counted
