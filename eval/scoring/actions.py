"""Of a wrong action: does the program's code allow it where it stands?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remedy.data_gen.control_flow import ControlFlow, ControlFlowError, Step
from remedy.data_gen.control_flow.guide.contradiction import against_state
from remedy.data_gen.traces.cwm import Cwm, Numbered
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.constraints import exceptions_of
from remedy.eval.failures import WrongAction
from remedy.eval.guided import check_states
from remedy.eval.scoring.common import Decoded

ENDED = ReadFrame(None, "")
"""Stands for the end of the trace."""


def wrong_action(decoded: Decoded, place: int, frames: Sequence[ReadFrame | None]) -> WrongAction | None:
    """What the program says of the first wrong event or line, which was written as the last of these frames, at a place of the true
    ones (a frame is None where nothing can be read). None: it cannot be told."""
    written = frames[-1]
    example, data = decoded.example, decoded.data
    form, reveal = FORMATS[data.format], example.reveal
    if written is None or not isinstance(form, Cwm) or reveal.answer_only or reveal.call_depth is not None:
        return None
    traced, true = example.trace.frames, example.frames
    number = true[place].number if place < len(true) else len(traced)
    try:
        flow = ControlFlow(example.trace.program, data.task.interpreter)
    except ControlFlowError:
        return None
    walk = flow.start(exceptions_of(example))
    for frame in traced[:number]:
        after = flow.advance(walk, frame.event, frame.source)
        if after is None:  # calls were stepped over when it was traced
            return None
        walk = after

    def line(step: Step) -> str:
        source = flow.source(step)
        return form.action(step.line, source) if isinstance(form, Numbered) else source

    allowed = {(step.event, line(step) if step.event is not None else "") for step in walk.allowed()}
    if (written.event, written.source) not in allowed:
        return WrongAction.OUTSIDE
    contradicts = _contradicts(decoded, form.seeded, flow, frames, line)
    return WrongAction.AGAINST_STATE if contradicts else WrongAction.ALLOWED


def _contradicts(
    decoded: Decoded,
    seeded: bool,
    flow: ControlFlow,
    frames: Sequence[ReadFrame | None],
    line: Callable[[Step], str],
) -> bool:
    """Whether the last frame takes another way than the states before it lead to; states that do not show all say nothing."""
    example, data = decoded.example, decoded.data
    readable = [frame for frame in frames if frame is not None]
    try:
        check_states(example.reveal, data.string_encoding)
    except ControlFlowError:
        return False
    exceptions = exceptions_of(example)
    return len(readable) == len(frames) and against_state(
        flow, readable, seeded=seeded, exceptions=exceptions, source=line
    )
