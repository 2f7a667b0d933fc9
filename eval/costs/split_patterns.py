"""Patterns of string operations that tokenizers split, a cause of wrong string values.

A model cannot find the token `','` in `'a,b'` if `,b` is one token.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from remedy.data_gen.execution.pool import trace_one
from remedy.data_gen.execution.program import Event, Program, Trace, Value
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.rewrites import rewrite_program
from remedy.data_gen.traces.string_encodings import escape
from remedy.models.tokenizer import TraceTokenizer

_METHODS = {  # without strip, lstrip and rstrip: their argument is a set of characters
    "count",
    "endswith",
    "find",
    "index",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rpartition",
    "rsplit",
    "split",
    "startswith",
}
_MOST_FRAMES = 2000
"""Frames of a trace that are searched: a loop shows its operations early."""


class Use(NamedTuple):
    operation: str
    subject: str
    pattern: str


def pattern_rows(
    program: Program, tracer: TracerConfig, counters: Mapping[str, TraceTokenizer]
) -> list[dict[str, Any]]:
    """Make a row for each tokenizer and distinct use in a run."""
    # These rewrites give every intermediate value a variable, so that the trace shows it.
    outcome = trace_one(rewrite_program(program, ["chains", "temporaries"]), tracer)
    if not isinstance(outcome, Trace):
        return []
    return [
        {"tokenizer": name, "operation": use.operation, "discontinuous": discontinuous(use, counter)}
        for use in dict.fromkeys(uses(outcome))
        if use.pattern and use.pattern in use.subject
        for name, counter in counters.items()
    ]


def discontinuous(use: Use, counter: TraceTokenizer) -> bool:
    """Say if the pattern's tokens are no contiguous part of the subject's."""
    pattern = counter.string_ids(escape(repr(use.pattern)[1:-1]))
    subject = counter.string_ids(escape(repr(use.subject)))
    return not any(subject[start : start + len(pattern)] == pattern for start in range(len(subject) - len(pattern) + 1))


def uses(trace: Trace) -> Iterator[Use]:
    """Yield uses whose subject and pattern are constants or variables."""
    try:
        tree = ast.parse(trace.program.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = trace.program.physical_lines()
    at_line: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Compare):
            at_line.setdefault(lines[node.lineno - 1], []).append(node)
    for frame in trace.frames[:_MOST_FRAMES]:
        if frame.event is Event.LINE and frame.locals is not None:
            for node in at_line.get(frame.source, ()):
                yield from _use(node, frame.locals)


def _use(node: ast.expr, state: Mapping[str, Value]) -> Iterator[Use]:
    match node:
        case ast.Call(func=ast.Attribute(value=subject, attr=operation), args=[pattern, *_]) if operation in _METHODS:
            texts = _string(subject, state), _string(pattern, state)
        case ast.Call(func=ast.Attribute(value=pattern, attr="join" as operation), args=[parts]):
            texts = _joined(_string(pattern, state), parts, state), _string(pattern, state)
        case ast.Compare(left=pattern, ops=[ast.In() | ast.NotIn()], comparators=[subject]):
            operation, texts = "in", (_string(subject, state), _string(pattern, state))
        case _:
            return
    if texts[0] is not None and texts[1] is not None:
        yield Use(operation, texts[0], texts[1])


def _string(node: ast.expr, state: Mapping[str, Value]) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name) if name in state and state[name].is_string:
            text = ast.literal_eval(state[name].text)  # what a program reports is data, and is not evaluated
            return text if isinstance(text, str) else None
    return None


def _joined(separator: str | None, parts: ast.expr, state: Mapping[str, Value]) -> str | None:
    value = state.get(parts.id) if isinstance(parts, ast.Name) else None
    if separator is None or value is None or value.type not in ("list", "tuple"):
        return None
    try:
        return separator.join(ast.literal_eval(value.text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
