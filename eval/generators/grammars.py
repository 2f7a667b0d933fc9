"""Constraints at a server: what is sent as a grammar with each request, and whether a reply has held to it."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.data_gen.control_flow import ControlFlowError
from remedy.data_gen.settings import UserError
from remedy.eval.allowed import Place
from remedy.eval.constrained import ConstrainedCursor
from remedy.eval.control_flow import TokenWalk
from remedy.eval.decoding import Cursor
from remedy.eval.grammar import LarkGrammar


class Begun:
    """One example's constraint, from the place where its trace begins."""

    def __init__(self, place: Place) -> None:
        """Raises:
        UserError: it cannot be written as a grammar that a server reads.
        """
        assert isinstance(place, TokenWalk), "no grammar says what a value may be"
        self.place = place
        self.program = place.grammar.flow.program.name
        self._grammar = LarkGrammar(place.grammar)
        self._at(place)

    def grammar_at(self, cursor: Cursor) -> str:
        """What may be written where a cursor is."""
        return self._at(_place(cursor))

    def outside(self, cursor: Cursor, tokens: Sequence[int]) -> int | None:
        """The first token that goes on from where a cursor is and is not allowed; None: all are. What follows a special token that
        ends a text in place of the closing one is not looked at: the cursor does not take it."""
        place = _place(cursor)
        for token in tokens:
            allowed = place.allowed()
            if not allowed.ids or (
                allowed.text and token not in allowed.ids and place.grammar.tokenizer.is_special(token)
            ):
                return None
            after = place.after(token)
            if after is None:
                return token
            place = after
        return None

    def _at(self, place: TokenWalk) -> str:
        try:
            return self._grammar.after(place)
        except ControlFlowError as error:
            raise UserError(
                f"forcing control_flow with a backend: {error}; leave the program out, or evaluate without a backend"
            ) from None


def begun(starts: Sequence[Place], count: int) -> list[Begun | None]:
    """Each example's, of so many; None without a constraint."""
    return [Begun(start) for start in starts] or [None] * count


def _place(cursor: Cursor) -> TokenWalk:
    assert isinstance(cursor, ConstrainedCursor)
    assert isinstance(cursor.place, TokenWalk)
    return cursor.place
