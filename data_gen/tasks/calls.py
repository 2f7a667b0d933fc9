"""Calls that given rows make: one that raises before its function runs says more of the row than of the function."""

from __future__ import annotations

import re

from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import Event, ProgramError, Trace

_NOT_BOUND = re.compile(
    r"\(<class '(NameError|TypeError)'>, \1\(.*(name '.*' is not defined|\(\) (missing|takes|got) |is not callable)"
)
"""An exception, as a trace shows it, of a missing name, or of a call with other arguments than what is called takes."""


def called(outcome: Outcome) -> Outcome:
    """Return the outcome `call` for a trace in which a row's call raised before its function ran; any other as it was.

    A function that is defined by `def` has a frame as soon as it runs. A class or a builtin may raise without one: there only a missing
    name, or arguments that do not fit, count.
    """
    if not isinstance(outcome, Trace) or not outcome.program.calls or (at := outcome.exception_frame) is None:
        return outcome
    function, value = outcome.program.calls, outcome.frames[at].value
    raised = value.text if value else ""
    definition = rf"[ \t]*def {re.escape(function)}\b"
    defined = re.search(f"^{definition}", outcome.program.code, re.MULTILINE)
    begins = re.compile(
        rf"{definition}|[ \t]*@" if defined else ""
    )  # a decorated function begins at its first decorator
    if any(frame.event is Event.CALL and begins.match(frame.source) for frame in outcome.frames[1:]):
        return outcome
    if not defined and not _NOT_BOUND.match(raised):
        return outcome
    words = raised.partition(", ")[2].rpartition(", ")[0]
    return ProgramError(
        "call",
        f"{outcome.program.name}: the call raised {words} before {function} ran; check that `code` defines {function} and that `input` "
        "is its arguments as Python text, strings in quotes",
    )
