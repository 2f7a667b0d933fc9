"""Contradictions of a written trace: lines that the states before them do not lead to. No true trace is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Check:
    """The check of a trace, frame by frame as it is written.

    `seeded`: whether the entry's CALL was given, and is not among the frames. `source`: how frames write the line of a step (None: as
    it is).
    """

    def __init__(
        self,
        flow: ControlFlow,
        seeded: bool = True,
        exceptions: Exceptions = "all",
        source: Callable[[Step], str] | None = None,
    ) -> None:
        self.frames = 0
        """Frames that could be followed."""
        self.decided = 0
        """Of these, those where the program alone allows several and the written state one."""
        self.contradictions: list[Contradiction] = []
        self.outside: int | None = None
        """The frame that the program never allows there, after which nothing is followed; None: there is none."""
        self._line = source or flow.source
        self._guide = (Guide.entered if seeded else Guide.start)(flow, exceptions)

    def take(self, frame: ReadFrame | None) -> None:
        """Follow one more frame, in full; None: the end."""
        if self.outside is not None:
            return
        written = (frame.event, frame.source) if frame is not None else (None, "")
        candidates = {step: (step.event, self._line(step)) for step in self._guide.walk.allowed()}
        steps = {step for step, shown in candidates.items() if shown == written}
        if not steps:
            self.outside = self.frames
            return
        expected = frozenset(candidates[step] for step in self._guide.allowed())
        self.decided += len(expected) == 1 < len(set(candidates.values()))
        if written not in expected:
            self.contradictions.append(Contradiction(self.frames, expected))
        self.frames += 1
        shown, value = (frame.locals, frame.value) if frame is not None else (None, None)
        if shown is not None and UNCHANGED.text in shown.values():  # it stands for nothing
            shown = None
        after = self._guide.advance(steps, shown, value)
        assert after is not None
        self._guide = after

    def follow(self, frames: Sequence[ReadFrame], ended: bool = True) -> Check:
        """Follow a written trace, in full or in diffs. `ended`: whether its end was written."""
        for frame in [*restore(frames), *([None] if ended else [])]:
            self.take(frame)
        return self
