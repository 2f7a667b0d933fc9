"""Contradictions of a written trace: lines that the states before them do not lead to. No true trace is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from remedy.data_gen.execution.program import UNCHANGED, Event
from remedy.data_gen.traces.parse import ReadFrame, restore
from remedy.eval.control_flow.evaluator.guide import Guide
from remedy.eval.control_flow.flow import ControlFlow
from remedy.eval.control_flow.options import Step
from remedy.eval.control_flow.walk import Exceptions


class Contradiction(NamedTuple):
    """A frame that the written state before it does not lead to, though the program alone allows it."""

    frame: int
    """Its place among the frames that were written."""
    expected: frozenset[tuple[Event | None, str]]
    """The events, and source lines, that it leads to; no event is the end."""


@dataclass
class Checked:
    """Result of checking a written trace."""

    frames: int = 0
    """Frames that could be followed."""
    decided: int = 0
    """Of these, those where the program alone allows several and the written state one."""
    contradictions: list[Contradiction] = field(default_factory=list)
    outside: int | None = None
    """The frame that the program never allows there, after which nothing is followed; None: there is none."""


def check(
    flow: ControlFlow,
    frames: Sequence[ReadFrame],
    *,
    ended: bool = True,
    seeded: bool = True,
    exceptions: Exceptions = "all",
    source: Callable[[Step], str] | None = None,
) -> Checked:
    """Follow a written trace, in full or in diffs.

    `ended`: whether its end was written. `seeded`: whether the entry's CALL was given, and is not among the frames. `source`: how
    frames write the line of a step (None: as it is).
    """
    following = Check(flow, seeded=seeded, exceptions=exceptions, source=source)
    for frame in [*restore(frames), *([None] if ended else [])]:
        following.take(frame)
    return following.found


class Check:
    """The check of a trace that is being written: what is `found` so far, frame by frame; the options as for `check`."""

    def __init__(
        self,
        flow: ControlFlow,
        *,
        seeded: bool = True,
        exceptions: Exceptions = "all",
        source: Callable[[Step], str] | None = None,
    ) -> None:
        self.found = Checked()
        self._line = source or flow.source
        self._guide = Guide.entered(flow, exceptions) if seeded else Guide.start(flow, exceptions)

    def take(self, frame: ReadFrame | None) -> None:
        """Follow one more frame, in full; None: the end. Nothing is followed after one that the program never allows."""
        found, guide = self.found, self._guide
        if found.outside is not None:
            return
        written = (frame.event, frame.source) if frame is not None else (None, "")
        candidates = {
            step: (step.event, self._line(step) if step.event is not None else "") for step in guide.walk.allowed()
        }
        steps = {step for step, shown in candidates.items() if shown == written}
        if not steps:
            found.outside = found.frames
            return
        expected = {candidates[step] for step in guide.allowed()}
        found.decided += len(expected) == 1 < len(set(candidates.values()))
        if written not in expected:
            found.contradictions.append(Contradiction(found.frames, frozenset(expected)))
        found.frames += 1
        shown, value = (_readable(frame.locals), frame.value) if frame is not None else (None, None)
        after = guide.advance(steps, shown, value)
        assert after is not None
        self._guide = after


def against_state(
    flow: ControlFlow,
    frames: Sequence[ReadFrame],
    *,
    seeded: bool = True,
    exceptions: Exceptions = "all",
    source: Callable[[Step], str] | None = None,
) -> bool:
    """Say if the last of the frames contradicts the states that were written before it: what attribution asks of a wrong action."""
    found = check(flow, frames, ended=False, seeded=seeded, exceptions=exceptions, source=source)
    return any(one.frame == len(frames) - 1 for one in found.contradictions)


def _readable(shown: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Locals in full; None if one stands for nothing."""
    return None if shown is None or UNCHANGED.text in shown.values() else shown
