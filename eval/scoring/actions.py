"""Check of written actions: does the program's code allow a wrong one where it stands, and where does a trace contradict itself?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.parse import ReadFrame
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions, Step
from remedy.eval.control_flow.evaluator import Checked, check
from remedy.eval.decoding.constraints import exceptions_of
from remedy.eval.decoding.control_flow import TraceGrammar
from remedy.eval.decoding.guided import GuidedGrammar
from remedy.eval.records.failures import WrongAction
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.reading import read
from remedy.models.tokenizer import TraceTokenizer

ENDED = ReadFrame(None, "")
"""Stands for the end of the trace."""


class Known(NamedTuple):
    """Facts of a program whose trace shows every frame's event and line."""

    flow: ControlFlow
    form: Cwm
    exceptions: Exceptions

    def line(self, step: Step) -> str:
        """Write the line of a step as frames do; empty at the end."""
        source = self.flow.source(step)
        return self.form.action(self.flow.program, step.line, source) if source else ""

    def check(self, frames: Sequence[ReadFrame], ended: bool) -> Checked:
        """Check a trace of it."""
        return check(self.flow, frames, ended, self.form.seeded, self.exceptions, self.line)


def known_of(example: Example, data: DataConfig) -> Known:
    """Collect the facts of an example's program, whatever of its trace is true.

    Raises:
        ControlFlowError: its control flow cannot be told, or the trace does not show it.
        ProgramError: it is no program.
    """
    TraceGrammar.check(data.format, example.reveal)
    form = FORMATS[data.format]
    assert isinstance(form, Cwm)
    return Known(ControlFlow(example.trace.program, data.task.interpreter), form, exceptions_of(example))


def wrong_action(decoded: Decoded, place: int, frames: Sequence[ReadFrame | None]) -> WrongAction | None:
    """Classify the first wrong event or line, written as the last of these frames at a place of the true ones (a frame is None where
    nothing can be read), by the program. None: it cannot be told."""
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
    if (written.event, written.source) not in {(step.event, known.line(step)) for step in walk.allowed()}:
        return WrongAction.OUTSIDE
    readable = [frame for frame in frames if frame is not None]
    if len(readable) < len(frames) or not _shows_all(decoded):  # states that do not show all say nothing
        return WrongAction.ALLOWED
    found = known.check(readable, ended=False).contradictions
    return WrongAction.AGAINST_STATE if len(readable) - 1 in found else WrongAction.ALLOWED


def contradictions(decoded: Decoded, tokenizer: TraceTokenizer) -> list[int] | None:
    """The places, among the written frames, of those that the states written before do not lead to, and of the first that the program
    never allows, after which nothing is followed. None: it cannot be told. No true frame is looked at."""
    if decoded.structure_fed or not _shows_all(decoded) or (known := _known(decoded)) is None:
        return None
    found = read(decoded, decoded.runs, tokenizer)
    readable = [frame for frame in takewhile(lambda frame: frame is not None, found.frames) if frame is not None]
    checked = known.check(readable, ended=found.whole)
    return [*checked.contradictions, *([] if checked.outside is None else [checked.outside])]


def _known(decoded: Decoded) -> Known | None:
    """None: the program's control flow cannot be told, or the trace does not show it."""
    try:
        return known_of(decoded.example, decoded.data)
    except ControlFlowError:
        return None


def _shows_all(decoded: Decoded) -> bool:
    """Say if states show all that evaluating a line needs."""
    try:
        GuidedGrammar.check(decoded.data.format, decoded.example.reveal, decoded.data.string_encoding)
    except ControlFlowError:
        return False
    return True
