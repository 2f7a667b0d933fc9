"""Tokens that must come next in a text of which a part is known, given those that are written.

A token may hold the end of what is known and the beginning of what is not, so what is certain stops before every token that another
continuation would change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

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
_TAIL = 40
"""Characters before what is not known that may be in one token with it, or decide how it is cut."""


class StateText:
    """A STATE, of which variables are known and some values. `entries`: names, and values as they are written, None where that is
    not known. `complete`: whether there are no others."""

    def __init__(self, tokenizer: TraceTokenizer, entries: Sequence[tuple[str, str | None]], complete: bool) -> None:
        self._tokenizer = tokenizer
        self._entries = entries
        self._complete = complete

    def certain(self, ids: Sequence[int]) -> tuple[list[int], bool]:
        """The tokens that must follow those written so far, and whether the state ends with them."""
        text = self._tokenizer.decode(ids)
        known, values, ended = "{", dict[str, Value](), False
        head = ""
        for number, (name, written) in enumerate(self._entries):
            head = f'{", " if number else ""}"{escape(name)}": "'
            known += head
            if written is None:
                if len(text) <= len(known):
                    break
                end = _closed(text, len(known))
                if end is None or not text.startswith(known):
                    return [], False
                written = _unescaped(text[len(known) : end])
                if written is None:
                    return [], False
            known += escape(written) + '"'
            values[name] = as_value(written)
        else:
            ended, head = self._complete, ""
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
        ids = self._tokenizer.encode(spans).ids
        if ended:
            return ids
        tail = "".join(str(span.piece) for span in spans[-3:])[-_TAIL:]
        return ids[: max(len(ids) - _unsettled(self._tokenizer, tail), 0)]


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


def _closed(text: str, start: int) -> int | None:
    """Return where a JSON string ends that begins before `start`; None if it does not yet."""
    at = start
    while at < len(text):
        if text[at] == '"':
            return at
        at += 2 if text[at] == "\\" else 1
    return None


def _unescaped(raw: str) -> str | None:
    """Return what the inside of a JSON string stands for; None if it is none."""
    try:
        found = json.loads(f'"{raw}"')
    except ValueError:
        return None
    return found if isinstance(found, str) else None
