"""The `symbolic` format: each variable, value and command is one token.

A state is a query, the variable's name, answered by a value.
"""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.execution.program import Trace, Value
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.frames import Format, Rendered, WrittenFrame, without_empty_states
from remedy.data_gen.traces.string_encodings import pieces


class Symbolic(Format):
    one_token = True
    session = True
    hides_program = True

    def write(
        self, trace: Trace, frames: Sequence[WrittenFrame], *, context: bool, encoding: str, answer_only: bool
    ) -> Rendered:
        spans = [Span(Role.CONTEXT, Special.BEGIN_OF_TEXT)]
        for line in trace.setup:
            spans.extend(Span(Role.CONTEXT, piece) for piece in line.split(" = "))
        if context:
            lines = [f.source for f in trace.frames if f.source] if trace.setup else trace.program.physical_lines()
            spans.extend(Span(Role.CONTEXT, line.rstrip("\n")) for line in lines if line.strip())
        spans.append(Span(Role.CONTEXT, Special.FRAME_SEP))
        for number, _, source, state, value in frames:
            for name, shown in (state or {}).items():
                spans.append(Span(Role.QUERY, name, number))
                spans.append(_one_token(Role.STATE, shown, encoding, number))
            if source:
                spans.append(Span(Role.ACTION, source.rstrip("\n"), number))
            if value is not None:
                spans.append(_one_token(Role.VALUE, value, encoding, number))
        spans.append(Span(Role.STRUCTURE, Special.END_OF_TEXT, len(trace.frames)))
        return Rendered(spans, without_empty_states(frames))


def _one_token(role: Role, value: Value, encoding: str, number: int) -> Span:
    return Span(role, "".join(piece.text for piece in pieces(value, encoding)), number, value.is_string)
