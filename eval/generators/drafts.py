"""Guesses at what is read next: the truth, as long as a row is in step with it, and where it comes back into step; else copies of what
was read before (Saxena, "Prompt lookup decoding", 2023). A wrong guess costs time alone: the model judges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from remedy.eval.decoding import Cursor

GRAM = 3
"""Tokens that have to be alike for what followed them to be guessed again."""
LONGEST_MATCH = 24
"""Tokens of a match that count: of two places the one with the longer match is taken."""
CANDIDATES = 8
"""Places that are looked at, of those with the same last tokens."""


class Source(IntEnum):
    """Where a guess comes from."""

    TRUTH = 0
    """The truth, in step."""
    BACK = 1
    """The truth, where what was read last looks like it again."""
    COPY = 2
    """What the row itself has read before."""


class Guess(NamedTuple):
    """Tokens that may be read next. `place`: of the first of them, in the truth or in what was read, after `read` tokens."""

    tokens: list[int]
    source: Source
    place: int = 0
    read: int = 0


Trust = Callable[[Source], float]
NOTHING = Guess([], Source.TRUTH)


class _Grams:
    """Where every few tokens of a growing sequence stand."""

    def __init__(self) -> None:
        self.seen = GRAM - 1
        self.after: dict[tuple[int, ...], list[int]] = {}

    def grow(self, tokens: Sequence[int]) -> None:
        """Take in all but what follows the last token, which nothing is known to follow."""
        for end in range(self.seen + 1, len(tokens)):
            self.after.setdefault(tuple(tokens[end - GRAM : end]), []).append(end)
        self.seen = max(self.seen, len(tokens) - 1)

    def places(self, tokens: Sequence[int]) -> list[int]:
        """The places that follow the same tokens as these end with."""
        return self.after.get(tuple(tokens[-GRAM:]), [])


class Drafter:
    """Guesses for one example. `cursor`: where the row stands in it."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._truth = _Grams()
        self._own = _Grams()
        self._anchor = (0, 0)

    def guess(self, read: Sequence[int], count: int, trust: Trust) -> Guess:
        """Up to `count` tokens that may follow those that were read. `trust`: how likely a source's next token is right."""
        ahead = self.cursor.ahead(count)
        if ahead is not None:
            self._anchor = (len(read), ahead[0])
            return Guess(ahead[1], Source.TRUTH, ahead[0], len(read))
        found = self._found(read, trust)
        if found is None:
            return NOTHING
        source, start = found
        tokens = list((self.cursor.ids if source is Source.BACK else read)[start : start + count])
        return Guess(self.cursor.resumed(tokens, count), source, start, len(read))

    def renew(self, read: int, before: int) -> None:
        """What was read has been forgotten but for so many tokens, of so many before."""
        self._own = _Grams()
        self._anchor = (self._anchor[0] + read - before, self._anchor[1])

    def returned(self, guess: Guess, right: int) -> None:
        """So many tokens of a guess were right: if it was the truth's, the row is where that was taken from."""
        if guess.source is Source.BACK and right:
            self._anchor = (guess.read, guess.place)

    def _found(self, read: Sequence[int], trust: Trust) -> tuple[Source, int] | None:
        """The place that looks most like where the row stands, in the truth or in what was read."""
        truth = self.cursor.ids
        self._truth.grow(truth)
        self._own.grow(read)
        expected = self._anchor[1] + len(read) - self._anchor[0]
        near = sorted(self._truth.places(read), key=lambda place: abs(place - expected))[:CANDIDATES]
        back = [(_matched(truth, place, read), -abs(place - expected), place) for place in near]
        if expected < len(truth):
            back.append((_matched(truth, expected, read), 0, expected))
        copies = [(_matched(read, place, read), place, place) for place in self._own.places(read)[-CANDIDATES:]]
        best = [(source, *max(found)) for source, found in ((Source.BACK, back), (Source.COPY, copies)) if found]
        if not best:
            return None
        source, _, _, place = max(best, key=lambda one: trust(one[0]) * (1 - 0.5 ** (1 + one[1])))
        return source, place


def _matched(sequence: Sequence[int], place: int, read: Sequence[int]) -> int:
    """How many tokens before the place are those that were read last."""
    count = 0
    while count < min(LONGEST_MATCH, place, len(read)) and sequence[place - 1 - count] == read[-1 - count]:
        count += 1
    return count
