"""Follows true traces through control flow and by their own states, and counts what these allow, decide and foretell."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from remedy.data_gen.execution.program import Frame, Program, ProgramError, Trace
from remedy.data_gen.execution.tracer import TraceLimits, trace
from remedy.eval.control_flow import END, ControlFlow, Exceptions, Step
from remedy.eval.control_flow.evaluator import Guide


@dataclass
class Counted:
    """Over frames after the first, and the end."""

    traces: int = 0
    frames: int = 0
    ambiguous: int = 0
    """Frames where the program alone allows several."""
    most: int = 0
    """How many it allows at most."""
    decided: int = 0
    """Of the ambiguous frames, those where the state allows one."""
    variables: int = 0
    names: int = 0
    """Of the variables of states those that are foretold to be there."""
    values: int = 0
    """And their values."""

    @property
    def share_certain(self) -> float:
        return 1 - self.ambiguous / self.frames

    @property
    def share_decided(self) -> float:
        return self.decided / self.ambiguous


def true_trace(program: Program, frames: int = 20_000) -> Trace | None:
    """What happens when a program runs in this process; None where it has no trace."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coroutines that are never awaited
        try:
            return trace(program, TraceLimits(frames))
        except ProgramError:
            return None


def texts(frame: Frame) -> dict[str, str] | None:
    """The variables of a frame as it shows them."""
    return None if frame.locals is None else {name: value.text for name, value in frame.locals.items()}


def follow(found: Trace, exceptions: Exceptions = "all", most: int = 500, into: Counted | None = None) -> Counted:
    """Walk along the first frames of a trace. Fails where the control flow or the trace's own states exclude what happened, or
    foretell another state or value."""
    counted = into or Counted()
    flow = ControlFlow(found.program)
    guide = Guide.start(flow, exceptions)
    counted.traces += 1
    frames: list[Frame | None] = [*found.frames, None]
    for number, frame in enumerate(frames[:most]):
        where = f"{found.program.name}, frame {number}: {frame}\n{found.program.code}"
        event, source = (frame.event, frame.source) if frame is not None else (None, "")
        candidates, allowed = flow.candidates(guide.walk), guide.allowed()
        left = {(step.event, flow.source(step)) for step in allowed}
        true = END if frame is None else Step(frame.event, frame.line)
        assert true in guide.walk.allowed(), f"the program allows {set(candidates)}: {where}"
        assert true in allowed, f"the state allows {left}: {where}"
        if number:
            counted.frames += 1
            counted.most = max(counted.most, len(candidates))
            counted.ambiguous += len(candidates) > 1
            counted.decided += len(left) == 1 < len(candidates)
        steps = candidates[event, source]
        shown, value = (None, None) if frame is None else (texts(frame), frame.value and frame.value.text)
        if number and shown is not None:
            _compare(guide, {step for step in allowed if step.event is event}, shown, counted, where)
        assert value is None or guide.value(steps) in (None, value), f"{guide.value(steps)}: {where}"
        after = guide.advance(steps, shown, value)
        assert after is not None, where
        guide = after
    return counted


def _compare(guide: Guide, steps: set[Step], shown: dict[str, str], counted: Counted, where: str) -> None:
    foretold = guide.shown(steps)
    names = [name for name, _ in foretold.entries]
    assert names == list(shown)[: len(names)], f"{foretold}: {where}"
    assert not foretold.complete or len(names) == len(shown), f"{foretold}: {where}"
    for name, text in foretold.entries:
        assert text in (None, shown[name]), f"{name} is not {text}: {where}"
    counted.variables += len(shown)
    counted.names += len(names)
    counted.values += sum(text is not None for _, text in foretold.entries)


def follow_all(programs: Iterable[Program], exceptions: Exceptions = "all", most: int = 500) -> Counted:
    """Follow all that have a trace; with exceptions `caught`, all whose entry returns."""
    counted = Counted()
    for program in programs:
        found = true_trace(program)
        if found is not None and not (found.raised and exceptions == "caught"):
            follow(found, exceptions, most, counted)
    return counted
