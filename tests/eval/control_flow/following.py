"""Follows true traces through control flow, and counts what was allowed."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from remedy.data_gen.execution.program import Frame, Program, ProgramError, Trace
from remedy.data_gen.execution.tracer import TraceLimits, trace
from remedy.eval.control_flow import ControlFlow, Exceptions


@dataclass
class Counted:
    """Over frames after the first, and the end: how many there were, and what else could have come."""

    traces: int = 0
    frames: int = 0
    certain: int = 0
    candidates: int = 0
    most: int = 0

    @property
    def share_certain(self) -> float:
        return self.certain / self.frames

    @property
    def mean_candidates(self) -> float:
        return self.candidates / self.frames


def true_trace(program: Program, frames: int = 20_000) -> Trace | None:
    """What happens when a program runs in this process; None where it has no trace."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coroutines that are never awaited
        try:
            return trace(program, TraceLimits(frames))
        except ProgramError:
            return None


def follow(found: Trace, exceptions: Exceptions = "all", most: int = 500, into: Counted | None = None) -> Counted:
    """Walk along the first frames of a trace. Fails where the control flow does not allow what happened."""
    counted = into or Counted()
    flow = ControlFlow(found.program)
    walk = flow.start(exceptions)
    counted.traces += 1
    frames: list[Frame | None] = [*found.frames, None]
    for number, frame in enumerate(frames[:most]):
        event, source = (frame.event, frame.source) if frame is not None else (None, "")
        candidates = flow.candidates(walk)
        if number:
            counted.frames += 1
            counted.certain += len(candidates) == 1
            counted.candidates += len(candidates)
            counted.most = max(counted.most, len(candidates))
        after = flow.advance(walk, event, source)
        assert after is not None, (
            f"{found.program.name}, frame {number}: {event} {source!r} not in {set(candidates)}\n{found.program.code}"
        )
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
