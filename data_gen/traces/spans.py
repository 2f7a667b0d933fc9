"""Lists of spans under construction, for the text formats."""

from __future__ import annotations

from functools import lru_cache

from remedy.data_gen.execution.program import Value
from remedy.data_gen.roles import Role, Span, Special
from remedy.data_gen.traces.string_encodings import pieces, source_pieces


class Spans(list[Span]):
    """List of spans that joins neighbouring text of one kind, as tokenizers need it."""

    def text(self, role: Role, text: str, frame: int, string: bool = False) -> None:
        """Add text; `string`: it belongs to a string value."""
        if not text:
            return
        if self:
            last = self[-1]
            if isinstance(last.piece, str) and last.role is role and last.frame == frame and last.string == string:
                self[-1] = Span(role, last.piece + text, frame, string)
                return
        self.append(Span(role, text, frame, string))

    def special(self, token: Special, frame: int, role: Role = Role.STRUCTURE) -> None:
        self.append(special_span(role, token, frame))

    def source(self, role: Role, text: str, frame: int) -> None:
        self.extend(source_spans(role, text, frame))

    def value(self, role: Role, value: Value, encoding: str, frame: int) -> None:
        for piece in pieces(value, encoding):
            self.text(role, piece.text, frame, piece.string)


# Separators and source lines come back in example after example at the same frame numbers: those spans are made once.


@lru_cache(maxsize=20_000)
def special_span(role: Role, token: Special, frame: int) -> Span:
    return Span(role, token, frame)


@lru_cache(maxsize=50_000)
def source_spans(role: Role, text: str, frame: int) -> tuple[Span, ...]:
    """Cut source text into spans at its string literals."""
    return tuple(Span(role, piece.text, frame, piece.string) for piece in source_pieces(text))
