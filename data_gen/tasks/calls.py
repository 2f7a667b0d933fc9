"""Calls that given rows make: one that raises before its function runs says more of the row than of the function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from remedy.data_gen.execution.pool import Outcome
from remedy.data_gen.execution.program import Event, ProgramError, Trace
from remedy.data_gen.rewrites.names import Names

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NOT_BOUND = re.compile(
    r"\(<class '(NameError|TypeError)'>, \1\(.*(name '.*' is not defined|\(\) (missing|takes|got) |is not callable)"
)
"""An exception, as a trace shows it, of a missing name, or of a call with other arguments than what is called takes."""


def called(outcome: Outcome) -> Outcome:
    """Return the outcome `call` for a trace in which a row's call raised before its function ran; any other as it was.

    Where the function is a plain `def`, whose calls all have frames, any exception before such a frame counts. A class, a decorated
    function or a builtin may raise without frames: there only a missing name, or arguments that do not fit, count.
    """
    if not isinstance(outcome, Trace) or not outcome.program.calls or (at := outcome.exception_frame) is None:
        return outcome
    program, raised = outcome.program, outcome.frames[at].value
    assert raised is not None
    entered = set(_called_lines(outcome, program.entry_point().line))
    lines = _plain_lines(ast.parse(program.code), program.calls)
    if entered & lines if lines else entered or not _NOT_BOUND.match(raised.text):
        return outcome
    words = raised.text.partition(", ")[2].rpartition(", ")[0]
    return ProgramError(
        "call",
        f"{program.name}: the call raised {words} before {program.calls} ran; check that `code` defines {program.calls} and that "
        "`input` is its arguments as Python text, strings in quotes",
    )


def _called_lines(trace: Trace, entry: int) -> Iterator[int]:
    """The first lines of what the entry calls, but for what stands in the call's own arguments."""
    level = 0
    for frame in trace.frames:
        if frame.event is Event.CALL and level == 1 and frame.line < entry:
            yield frame.line
        level += (frame.event is Event.CALL) - (frame.event is Event.RETURN)


def _plain_lines(tree: ast.Module, name: str) -> set[int]:
    """The lines of a function's definitions; none if it is undefined, decorated, or bound by anything else."""
    lines = set()
    for node in tree.body:
        if isinstance(node, _SCOPES):
            if node.name == name:
                if isinstance(node, ast.ClassDef) or node.decorator_list:
                    return set()
                lines.add(node.lineno)
        elif name in Names(node).bound:
            return set()
    return set() if name in Names(tree).shared else lines
