"""Tokens that must come next in a text of which a part is known, given those that are written.

A token may hold the end of what is known and the beginning of what is not, so what is certain stops before every token that another
continuation would change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from remedy.data_gen.execution.program import UNCHANGED, Value
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.cwm import state_spans
from remedy.data_gen.traces.spans import Spans
from remedy.data_gen.traces.string_encodings import escape
from remedy.eval.control_flow.evaluator.values import is_data, read
from remedy.models.tokenizer import TraceTokenizer

_PROBES = (
    *("a", "Z", "None", "True", "1", "0", "12", "-1", "-", "'", "''", "'a", "r", "b'", "s", "t", "<", "<f"),
    *("[", "[[", "['", "[1", "[]", "{", "{'", "{}", "{1", "(", "('", "(1", "()", " ", "  ", ".", "..", ",", ", "),
    *("}", '"', '", ', '"}', "\\", "\\\\", "\\u00"),
)
"""Beginnings of what may follow: if none of them changes a token, it is held for certain."""
_JSON = json.JSONDecoder()
_TAIL = 40
"""Characters before what is not known that may be in one token with it, or decide how it is cut."""


class StateText(NamedTuple):
    """A STATE, of which variables are known and some values."""

    tokenizer: TraceTokenizer
    entries: Sequence[tuple[str, str | None]]
    """Names, and values as they are written, None where that is not known."""
    complete: bool
    """Whether there are no others."""

    def certain(self, ids: Sequence[int]) -> tuple[list[int], bool]:
        """The tokens that must follow those written so far, and whether the state ends with them."""
        text = self.tokenizer.decode(ids)
        known, values, ended = "{", dict[str, Value](), False
        head = ""
        for number, (name, written) in enumerate(self.entries):
            head = f'{", " if number else ""}"{escape(name)}": "'
            known += head
            if written is None:
                if len(text) <= len(known):
                    break
                if not text.startswith(known):
                    return [], False
                try:
                    written, _ = _JSON.raw_decode(text, len(known) - 1)
                except ValueError:  # it does not end yet, or is none
                    return [], False
            known += escape(written) + '"'
            values[name] = as_value(written)
        else:
            ended, head = self.complete, ""
        if ended:
            known += "}"
        if not known.startswith(text):
            return [], False
        found = self._ids(values, head, ended)
        if found[: len(ids)] != list(ids):
            return [], False
        return found[len(ids) :], ended

    def _ids(self, values: dict[str, Value], head: str, ended: bool) -> list[int]:
        """The tokens of a state up to what is not known."""
        spans = state_spans(values, "plain", 0)
        if not ended:
            last = spans.pop()
            assert isinstance(last.piece, str)
            spans.append(Span(Role.STATE, last.piece[:-1] + head, 0))
        ids = self.tokenizer.encode(spans).ids
        if ended:
            return ids
        tail = "".join(str(span.piece) for span in spans[-3:])[-_TAIL:]
        return ids[: max(len(ids) - _unsettled(self.tokenizer, tail), 0)]


def value_ids(tokenizer: TraceTokenizer, text: str) -> list[int]:
    """The tokens of a VALUE."""
    spans = Spans()
    spans.text(Role.VALUE, '"', 0)
    spans.value(Role.VALUE, as_value(text), "plain", 0)
    spans.text(Role.VALUE, '"', 0)
    return tokenizer.encode(spans).ids


def as_value(text: str) -> Value:
    """A value by its text, with the type that this is of if it is a literal."""
    if text == UNCHANGED.text:
        return UNCHANGED
    found = read(text)
    return Value(text, type(found).__name__ if is_data(found) else "object")


@lru_cache(maxsize=200_000)
def has_quote(tokenizer: TraceTokenizer, token: int) -> bool:
    """Say if a token has a quote, which may end a value."""
    return '"' in tokenizer.decode([token])


@lru_cache(maxsize=20_000)
def _unsettled(tokenizer: TraceTokenizer, tail: str) -> int:
    """Return how many of the last tokens of a text may be others, depending on what follows it."""
    ids = tokenizer.encode([Span(Role.STATE, tail, 0)]).ids
    settled = len(ids)
    for probe in _PROBES:
        other = tokenizer.encode([Span(Role.STATE, tail + probe, 0)]).ids
        alike = next((at for at, (one, two) in enumerate(zip(ids, other)) if one != two), min(len(ids), len(other)))
        settled = min(settled, alike)
    return len(ids) - settled
