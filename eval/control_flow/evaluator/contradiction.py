"""Contradictions of a written trace: lines that the states before them do not lead to. No true trace is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from remedy.data_gen.execution.program import UNCHANGED
from remedy.data_gen.traces.parse import ReadFrame, restore
from remedy.eval.control_flow.evaluator.guide import Guide
from remedy.eval.control_flow.flow import ControlFlow
from remedy.eval.control_flow.options import Step
from remedy.eval.control_flow.walk import Exceptions


class Checked(NamedTuple):
    """Faults of a written trace, found without a true one. Frames are told by their places among the written ones."""

    contradictions: list[int]
    """Frames that the written state before them does not lead to, though the program alone allows them."""
    outside: int | None
    """The frame that the program never allows there, after which nothing is followed; None: there is none."""


def check(
    flow: ControlFlow,
    frames: Sequence[ReadFrame],
    ended: bool = True,
    seeded: bool = True,
    exceptions: Exceptions = "all",
    source: Callable[[Step], str] | None = None,
) -> Checked:
    """Follow a written trace, in full or in diffs.

    `ended`: whether its end was written. `seeded`: whether the entry's CALL was given, and is not among the frames. `source`: how
    frames write the line of a step (None: as it is).
    """
    guide: Guide | None = (Guide.entered if seeded else Guide.start)(flow, exceptions)
    contradictions: list[int] = []
    for number, frame in enumerate([*restore(frames), *([None] if ended else [])]):
        assert guide is not None
        written = (frame.event, frame.source) if frame is not None else (None, "")
        candidates = {step: (step.event, (source or flow.source)(step)) for step in guide.walk.allowed()}
        steps = {step for step, shown in candidates.items() if shown == written}
        if not steps:
            return Checked(contradictions, number)
        if written not in {candidates[step] for step in guide.allowed()}:
            contradictions.append(number)
        shown, value = (frame.locals, frame.value) if frame is not None else (None, None)
        if shown is not None and UNCHANGED.text in shown.values():  # it stands for nothing
            shown = None
        guide = guide.advance(steps, shown, value)
    return Checked(contradictions, None)
