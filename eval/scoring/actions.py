"""Check of a wrong action against what the program's code allows there."""

from __future__ import annotations

from remedy.data_gen.execution.program import Event
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.control_flow import ControlFlow, ControlFlowError
from remedy.eval.decoding.constraints import exceptions_of
from remedy.eval.decoding.control_flow import TraceGrammar
from remedy.eval.records.failures import WrongAction
from remedy.eval.scoring.common import DecodedExample

ENDED = ReadFrame(None, "")
"""Stands for the end of the trace."""


def wrong_action(decoded: DecodedExample, index: int, written: ReadFrame | None) -> WrongAction | None:
    """Classify the first wrong event or line by control flow; None if it cannot tell.

    `index`: index among the true frames. `written`: None if unreadable.
    """
    data, example = decoded.data, decoded.example
    if written is None:
        return None
    try:
        TraceGrammar.check(data.format, example.reveal)
        flow = ControlFlow(example.trace.program, data.task.interpreter)
    except ControlFlowError:
        return None
    traced, true, form = example.trace.frames, example.frames, FORMATS[data.format]
    assert isinstance(form, Cwm)
    number = true[index].number if index < len(true) else len(traced)
    walk = flow.start(exceptions_of(example))
    for frame in traced[:number]:
        next_walk = walk.after(frame.event, frame.source)
        if next_walk is None:  # the tracer stepped over calls
            return None
        walk = next_walk
    allowed: set[tuple[Event | None, str]] = set()
    for step in walk.allowed():
        source = flow.source(step)
        allowed.add((step.event, form.action(flow.program, step.line, source) if source else ""))
    return WrongAction.ALLOWED if (written.event, written.source) in allowed else WrongAction.OUTSIDE
