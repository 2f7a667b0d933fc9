"""Drafts of what is read next: the truth, as long as a row is in step with it, and where it comes back into step; else copies of what
was read before (Saxena, "Prompt lookup decoding", 2023). A wrong draft costs time alone: the model judges it."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from remedy.eval.decoding.cursor import Cursor

GRAMS = (3, 1)
"""Tokens that have to be alike for what followed them to be guessed again: fewer, where so many are nowhere."""
LONGEST_MATCH = 64
"""Tokens of a match that count: of two places the one with the longer match is taken, in the truth or in what was read."""
CANDIDATES = 8
"""Places that are looked at on either side of the one where the row is expected, of those with the same last tokens."""


class Source(IntEnum):
    """Source of a draft."""

    TRUTH = 0
    """The truth, in step."""
    BACK = 1
    """The truth, where what was read last looks like it again."""
    COPY = 2
    """What the row itself has read before."""


class Draft(NamedTuple):
    """Tokens that may be read next. `place`: of the first of them, in the truth or in what was read, after `read` tokens."""

    tokens: list[int]
    source: Source
    place: int = 0
    read: int = 0


Worth = Callable[[Source], int]
NO_DRAFT = Draft([], Source.TRUTH)


class _Copied:
    """A sequence that a row may follow: where every few of its tokens stand, and where the row stood in it when a guess from it was
    right."""

    def __init__(self) -> None:
        self.anchor: tuple[int, int] | None = None
        """After so many tokens that were read, the row stood at this place."""
        self._seen = 0
        self._after: dict[tuple[int, ...], list[int]] = {}

    def found(self, tokens: Sequence[int], read: Sequence[int]) -> tuple[int, int] | None:
        """Return how many of the tokens before a place are those that were read last, and the place: the one with most, of all that
        are near where the row would be if it had written one token for another since it was in step (at first, near the end)."""
        self._grow(tokens)
        expected = len(tokens) if self.anchor is None else self.anchor[1] + len(read) - self.anchor[0]
        places = next((places for size in GRAMS if (places := self._after.get(tuple(read[-size:])))), [])
        middle = bisect(places, expected)
        near = places[max(0, middle - CANDIDATES) : middle + CANDIDATES]
        if expected < len(tokens):
            near = [*near, expected]
        ranked = [(_matched(tokens, place, read), -abs(place - expected), place) for place in near]
        if not ranked:
            return None
        matched, _, place = max(ranked)
        return matched, place

    def _grow(self, tokens: Sequence[int]) -> None:
        """Take in all but what follows the last token, which nothing is known to follow."""
        for end in range(self._seen + 1, len(tokens)):
            for size in GRAMS:
                if size <= end:
                    self._after.setdefault(tuple(tokens[end - size : end]), []).append(end)
        self._seen = max(self._seen, len(tokens) - 1)


class Drafter:
    """Drafts for one example. `cursor`: where the row stands in it."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._truth = _Copied()
        self._own = _Copied()

    def draft(self, read: Sequence[int], room: int, worth: Worth) -> Draft:
        """Return what may follow the tokens that were read: of the truth, in step, up to `room` tokens, else as many of a source as are
        `worth` it."""
        cursor = self.cursor
        if not cursor.done and cursor.run + 1 == len(cursor.runs) and not cursor.runs[cursor.run][2]:
            room = min(
                room, cursor.remaining
            )  # nothing is fed after the last run: what the row may not write is not read
        ahead = cursor.ahead(room)
        if ahead is not None:
            self._truth.anchor = (len(read), ahead[0])
            return Draft(ahead[1], Source.TRUTH, ahead[0], len(read))
        sequences = {Source.BACK: (self._truth, self.cursor.ids), Source.COPY: (self._own, read)}
        places = {source: copied.found(tokens, read) for source, (copied, tokens) in sequences.items()}
        found = [(one[0], worth(source), source, one[1]) for source, one in places.items() if one is not None]
        if not found:
            return NO_DRAFT
        _, most, source, start = max(found)
        count = min(room, most)
        tokens = list(sequences[source][1][start : start + count])
        if source is Source.COPY and tokens:
            # Past what was read it copies itself, as the model does in a loop, which ends where the row may write no more.
            count = min(count, cursor.remaining)
            tokens = (tokens * math.ceil(count / len(tokens)))[:count]
        return Draft(cursor.resumed(tokens, count), source, start, len(read))

    def renew(self, read: int, before: int) -> None:
        """Return what was read has been forgotten but for so many tokens, of so many before."""
        self._own = _Copied()
        if self._truth.anchor is not None:
            self._truth.anchor = (self._truth.anchor[0] + read - before, self._truth.anchor[1])

    def returned(self, draft: Draft, right: int) -> None:
        """So many tokens of a draft were right: if any, the row is where it was taken from."""
        if draft.source is not Source.TRUTH and right:
            copied = self._truth if draft.source is Source.BACK else self._own
            copied.anchor = (draft.read, draft.place)


def _matched(sequence: Sequence[int], place: int, read: Sequence[int]) -> int:
    """Return how many tokens before the place are those that were read last."""
    count = 0
    while count < min(LONGEST_MATCH, place, len(read)) and sequence[place - 1 - count] == read[-1 - count]:
        count += 1
    return count
