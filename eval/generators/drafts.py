"""Drafts of what is read next: the truth, as long as a row is in step with it, and where it comes back into step; else copies of what
was read before (Saxena, "Prompt lookup decoding", 2023). A wrong draft costs time alone: the model judges it."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence

from remedy.eval.decoding.cursor import Cursor

GRAMS = (3, 1)
"""Tokens that have to be alike for what followed them to be guessed again: fewer, where so many are nowhere."""
LONGEST_MATCH = 64
"""Tokens of a match that count: of two places the one with the longer match is taken, in the truth or in what was read."""
CANDIDATES = 8
"""Places that are looked at on either side of the one where the row is expected, of those with the same last tokens."""


class _Copied:
    """A sequence that a row may follow: where every few of its tokens stand."""

    def __init__(self) -> None:
        self._seen = 0
        self._after: dict[tuple[int, ...], list[int]] = {}

    def found(self, tokens: Sequence[int], read: Sequence[int], expected: int) -> tuple[int, int] | None:
        """Return how many of the tokens before a place are those that were read last, and the place: the one with most, of all that
        are near the expected one, and of that itself."""
        self._grow(tokens)
        places = next((places for size in GRAMS if (places := self._after.get(tuple(read[-size:])))), [])
        middle = bisect(places, expected)
        near = places[max(0, middle - CANDIDATES) : middle + CANDIDATES]
        near += [expected] * (expected < len(tokens))
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
        self._forgotten = 0
        self._back = self._truthful = True
        """Whether the last draft was of the truth, and whether the next is where both look as likely."""

    def draft(self, read: Sequence[int], room: int, reach: int) -> list[int]:
        """Return what may follow the tokens that were read: of the truth, in step, up to `room` tokens, else up to `reach`."""
        cursor = self.cursor
        if not cursor.done and cursor.run + 1 == len(cursor.runs) and not cursor.runs[cursor.run][2]:
            # Nothing is fed after the last run: what the row may not write is not read.
            room = min(room, cursor.remaining)
        if (ahead := cursor.ahead(room)) is not None:
            self._back = True
            return ahead[1]
        back = self._truth.found(cursor.ids, read, len(read) + self._forgotten)
        copy = self._own.found(read, read, len(read))
        count = min(room, reach)
        if count < 1 or (back is None and copy is None):
            return []
        self._back = copy is None or (back is not None and (back[0], self._truthful) > (copy[0], not self._truthful))
        if back is not None and self._back:
            return cursor.resumed(list(cursor.ids[back[1] : back[1] + count]), count)
        assert copy is not None
        tokens = list(read[copy[1] : copy[1] + count])
        # Past what was read it copies itself, as the model does in a loop, which ends where the row may write no more.
        count = min(count, cursor.remaining)
        return cursor.resumed((tokens * math.ceil(count / len(tokens)))[:count], count)

    def judged(self, right: bool) -> None:
        """The last draft was right throughout, or not."""
        self._truthful = self._back == right

    def renew(self, forgotten: int) -> None:
        """Return to what is left where so many of the tokens that were read have been forgotten."""
        self._own = _Copied()
        self._forgotten += forgotten


def _matched(sequence: Sequence[int], place: int, read: Sequence[int]) -> int:
    """Return how many tokens before the place are those that were read last."""
    count = 0
    while count < min(LONGEST_MATCH, place, len(read)) and sequence[place - 1 - count] == read[-1 - count]:
        count += 1
    return count
