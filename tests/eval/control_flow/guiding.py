"""Follows true traces by their own states, and counts what those decide and foretell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remedy.data_gen.execution.program import Frame, Program, Trace
from remedy.eval.control_flow import ControlFlow, Exceptions, Step
from remedy.eval.control_flow.evaluator import Guide
from tests.eval.control_flow.following import true_trace


@dataclass
class Decided:
    """Over frames after the first, and the end."""

    traces: int = 0
    frames: int = 0
    ambiguous: int = 0
    """Frames where the program alone allows several."""
    decided: int = 0
    """Of these, those where the state allows one."""
    variables: int = 0
    names: int = 0
    """Of the variables of states those that are foretold to be there."""
    values: int = 0
    """And their values."""
    returned: int = 0
    returned_values: int = 0

    @property
    def share_decided(self) -> float:
        return self.decided / self.ambiguous


def texts(frame: Frame) -> dict[str, str] | None:
    """The variables of a frame as it shows them."""
    return None if frame.locals is None else {name: value.text for name, value in frame.locals.items()}


def follow_state(found: Trace, exceptions: Exceptions = "all", most: int = 500, into: Decided | None = None) -> Decided:
    """Walk along the first frames of a trace. Fails where its own states exclude what happened, or foretell another state or value."""
    counted = into or Decided()
    flow = ControlFlow(found.program)
    guide = Guide.start(flow, exceptions)
    counted.traces += 1
    frames: list[Frame | None] = [*found.frames, None]
    for number, frame in enumerate(frames[:most]):
        where = f"{found.program.name}, frame {number}: {frame}\n{found.program.code}"
        event, source = (frame.event, frame.source) if frame is not None else (None, "")
        candidates = flow.candidates(guide.walk)
        allowed = guide.allowed()
        left = {(step.event, flow.source(step)) for step in allowed}
        assert (event, source) in left, f"not in {left}: {where}"
        if number:
            counted.frames += 1
            counted.ambiguous += len(candidates) > 1
            counted.decided += len(left) == 1 < len(candidates)
        steps = candidates[event, source]
        if number and frame is not None and (shown := texts(frame)) is not None:
            _compare(guide, {step for step in allowed if step.event is event}, shown, counted, where)
        if frame is not None and frame.value is not None:
            value = guide.value(steps)
            assert value in (None, frame.value.text), f"{value}: {where}"
            counted.returned += 1
            counted.returned_values += value is not None
        after = guide.advance(
            steps,
            None if frame is None else texts(frame),
            None if frame is None or frame.value is None else frame.value.text,
        )
        assert after is not None, where
        guide = after
    return counted


def _compare(guide: Guide, steps: set[Step], shown: dict[str, str], counted: Decided, where: str) -> None:
    foretold = guide.shown(steps)
    names = [name for name, _ in foretold.entries]
    assert names == list(shown)[: len(names)], f"{foretold}: {where}"
    assert not foretold.complete or len(names) == len(shown), f"{foretold}: {where}"
    for name, text in foretold.entries:
        assert text in (None, shown[name]), f"{name} is not {text}: {where}"
    counted.variables += len(shown)
    counted.names += len(names)
    counted.values += sum(text is not None for _, text in foretold.entries)


def follow_states(programs: Iterable[Program], exceptions: Exceptions = "all", most: int = 500) -> Decided:
    """Follow all that have a trace; with exceptions `caught`, all whose entry returns."""
    counted = Decided()
    for program in programs:
        found = true_trace(program)
        if found is not None and not (found.raised and exceptions == "caught"):
            follow_state(found, exceptions, most, counted)
    return counted
