"""Calls in given rows that run nothing of their function."""

from __future__ import annotations

import ast
import re

from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import MARKER, Event, Program, ProgramError

_NOT_BOUND = re.compile(
    r"\(<class '(NameError|TypeError)'>, \1\(.*(name '.*' is not defined|\(\) (missing|takes|got) |is not callable)"
)
"""An exception, as a trace shows it, of a missing name, or of a call with other arguments than what is called takes."""
_RUNS_LATER = ("async_generator", "coroutine", "generator")
_IS_TEXT = "`input` is its arguments as Python text, strings in quotes"


def called(program: Program, outcome: Outcome) -> Outcome:
    """Replace the outcome by `call` if a row's call ran nothing of its function.

    A function defined by `def` has a frame as soon as it runs. A class or builtin may raise without one: there a missing
    name or unfitting arguments count.
    """
    if not (function := program.calls):
        return outcome
    if isinstance(outcome, ProgramError):
        if outcome.kind != "syntax" or _parses(program):
            return outcome
        return ProgramError("syntax", f"{program.name}: its call of {function} does not parse; check that {_IS_TEXT}")
    value = outcome.result
    if (frame_number := outcome.exception_frame) is not None:
        value = outcome.frames[frame_number].value
    elif value is None or value.type not in _RUNS_LATER:
        return outcome
    definition = rf"[ \t]*(?:async )?def {re.escape(function)}\b"
    defined = re.search(f"^{definition}", program.code, re.MULTILINE)
    first_line = re.compile(
        rf"{definition}|[ \t]*@" if defined else ""
    )  # a decorated function begins at its first decorator
    if any(frame.event is Event.CALL and first_line.match(frame.source) for frame in outcome.frames[1:]):
        return outcome
    text = value.text if value else ""
    if not outcome.raised:
        problem = f"gave {text} and ran nothing of it; have {function} run it, as with `list` or `asyncio.run`"
    elif defined or _NOT_BOUND.match(text):
        raised = text.partition(", ")[2].rpartition(", ")[0]
        problem = f"raised {raised} before {function} ran; check that `code` defines {function} and that {_IS_TEXT}"
    else:
        return outcome
    return ProgramError("call", f"{program.name}: the call {problem}")


def _parses(program: Program) -> bool:
    try:
        ast.parse(program.code.rpartition(MARKER)[2].strip().removeprefix("return "), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
