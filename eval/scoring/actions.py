"""Of a wrong action: does the program's code allow it where it stands? Of any written trace: where does it contradict itself?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from remedy.data_gen.control_flow import ControlFlow, ControlFlowError, Exceptions, Step
from remedy.data_gen.control_flow.guide.contradiction import against_state, check
from remedy.data_gen.traces.cwm import Cwm, Numbered
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.constraints import exceptions_of
from remedy.eval.failures import WrongAction
from remedy.eval.guided import check_states
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.reading import read
from remedy.models.tokenizer import TraceTokenizer

ENDED = ReadFrame(None, "")
"""Stands for the end of the trace."""


class _Known(NamedTuple):
    """What is known of a program whose trace shows every frame's event and line."""

    flow: ControlFlow
    form: Cwm
    exceptions: Exceptions

    def line(self, step: Step) -> str:
        """How frames write the line of a step."""
        source = self.flow.source(step)
        return self.form.action(step.line, source) if isinstance(self.form, Numbered) else source


def wrong_action(decoded: Decoded, place: int, frames: Sequence[ReadFrame | None]) -> WrongAction | None:
    """What the program says of the first wrong event or line, which was written as the last of these frames, at a place of the true
    ones (a frame is None where nothing can be read). None: it cannot be told."""
    written, known = frames[-1], _known(decoded)
    if written is None or known is None:
        return None
    traced, true = decoded.example.trace.frames, decoded.example.frames
    number = true[place].number if place < len(true) else len(traced)
    walk = known.flow.start(known.exceptions)
    for frame in traced[:number]:
        after = known.flow.advance(walk, frame.event, frame.source)
        if after is None:  # calls were stepped over when it was traced
            return None
        walk = after
    allowed = {(step.event, known.line(step) if step.event is not None else "") for step in walk.allowed()}
    if (written.event, written.source) not in allowed:
        return WrongAction.OUTSIDE
    readable = [frame for frame in frames if frame is not None]
    if len(readable) < len(frames) or not _shows_all(decoded):  # states that do not show all say nothing
        return WrongAction.ALLOWED
    against = against_state(
        known.flow, readable, seeded=known.form.seeded, exceptions=known.exceptions, source=known.line
    )
    return WrongAction.AGAINST_STATE if against else WrongAction.ALLOWED


def contradictions(decoded: Decoded, tokenizer: TraceTokenizer) -> list[int] | None:
    """The places, among the written frames, of those that the states written before do not lead to, and of the first that the program
    never allows, after which nothing is followed. None: it cannot be told. No true frame is looked at."""
    if decoded.structure_fed or not _shows_all(decoded) or (known := _known(decoded)) is None:
        return None
    found = read(decoded, decoded.runs, tokenizer)
    readable = [frame for frame in takewhile(lambda frame: frame is not None, found.frames) if frame is not None]
    checked = check(
        known.flow,
        readable,
        ended=found.whole,
        seeded=known.form.seeded,
        exceptions=known.exceptions,
        source=known.line,
    )
    outside = [] if checked.outside is None else [checked.outside]
    return sorted({*outside, *(one.frame for one in checked.contradictions)})


def _known(decoded: Decoded) -> _Known | None:
    """None: the program's control flow cannot be told, or the trace does not show it."""
    example, form, reveal = decoded.example, FORMATS[decoded.data.format], decoded.example.reveal
    if not isinstance(form, Cwm) or reveal.answer_only or reveal.call_depth is not None:
        return None
    try:
        flow = ControlFlow(example.trace.program, decoded.data.task.interpreter)
    except ControlFlowError:
        return None
    return _Known(flow, form, exceptions_of(example))


def _shows_all(decoded: Decoded) -> bool:
    """Whether states show all that evaluating a line needs."""
    try:
        check_states(decoded.example.reveal, decoded.data.string_encoding)
    except ControlFlowError:
        return False
    return True
