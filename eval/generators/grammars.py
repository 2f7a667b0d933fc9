"""Constraints at a server: what is sent as a grammar with a request, and whether a reply has held to it.

Control flow is sent whole: what may still come, to the end of the trace. Where no grammar says that, since values decide, or where it
is more than a server reads, a request holds to what may come next alone, and the model writes on freely: as far as the constraint
allows the same, that stands, being the likeliest after what stands before it; then what is certain is fed, and it is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.eval.control_flow import ControlFlowError
from remedy.eval.decoding.constrained import ConstrainedCursor
from remedy.eval.decoding.control_flow import TokenWalk
from remedy.eval.decoding.cursor import Cursor
from remedy.eval.decoding.grammar import LarkGrammar, beginning
from remedy.eval.decoding.protocol import Place


class SentGrammar(NamedTuple):
    """The grammar of a request."""

    text: str
    """What may be written, in Lark; empty: anything."""
    whole: bool
    """Whether it is all that the constraint allows, to the end of the trace; else the grammar is of the first token alone."""


NO_GRAMMAR = SentGrammar("", True)


class ConstraintGrammar:
    """One example's constraint as grammars, from the place where its trace begins."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._grammar = LarkGrammar(place.grammar) if type(place) is TokenWalk else None

    def at(self, cursor: Cursor) -> SentGrammar:
        """The grammar that is sent where a cursor is."""
        place = _place(cursor)
        if self._grammar is not None:
            assert isinstance(place, TokenWalk)
            try:
                return SentGrammar(self._grammar.after(place), True)
            except ControlFlowError:  # more than a server reads
                self._grammar = None
        allowed = place.allowed()
        return SentGrammar("" if allowed.text else beginning(allowed.ids), False)


def outside(cursor: Cursor, sent: SentGrammar, tokens: Sequence[int]) -> int | None:
    """The first token that goes on from where a cursor is and is not allowed by what was sent; None: all are. What follows a special
    token that ends a text in place of the closing one is not looked at: the cursor does not take it."""
    place = _place(cursor)
    for token in tokens if sent.whole else tokens[: bool(sent.text)]:
        allowed = place.allowed()
        if not allowed.ids or (allowed.text and token not in allowed.ids and cursor.tokenizer.is_special(token)):
            return None
        after = place.after(token)
        if after is None:
            return token
        place = after
    return None


def _place(cursor: Cursor) -> Place:
    assert isinstance(cursor, ConstrainedCursor)
    return cursor.place
