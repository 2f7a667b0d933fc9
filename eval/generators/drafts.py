"""Drafts for speculative decoding.

A draft is the truth while a row follows it, and where it returns to it; else a copy of tokens read before (Saxena, "Prompt lookup
decoding", 2023). A wrong draft only costs time.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence

from remedy.eval.decoding.cursor import Cursor

GRAMS = (3, 1)
"""Sizes of the n-grams that are looked up, in order: the shorter one only if the longer one is found nowhere."""
LONGEST_MATCH = 64
"""Longest match that is counted, in tokens. Of two candidates, the one with the longer match is taken."""
CANDIDATES = 8
"""Number of candidates examined on either side of the expected position."""


class _Copied:
    """Index of the n-grams of a sequence that a row may follow."""

    def __init__(self) -> None:
        self._seen = 0
        self._after: dict[tuple[int, ...], list[int]] = {}

    def found(self, tokens: Sequence[int], read: Sequence[int], expected: int) -> tuple[int, int] | None:
        """Return the length and position of the best match with the last tokens read.

        Candidates are near the expected position.
        """
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
        """Add all tokens that have a successor."""
        for end in range(self._seen + 1, len(tokens)):
            for size in GRAMS:
                if size <= end:
                    self._after.setdefault(tuple(tokens[end - size : end]), []).append(end)
        self._seen = max(self._seen, len(tokens) - 1)


class Drafter:
    """Drafts for one example."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._truth = _Copied()
        self._own = _Copied()
        self._forgotten = 0
        self._back = self._truthful = True
        """Whether the last draft came from the truth, and whether the truth is preferred if both candidates match equally."""

    def draft(self, read: Sequence[int], room: int, reach: int) -> list[int]:
        """Return tokens that may follow: at most `room` on the truth, else `reach`."""
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

    def record_result(self, right: bool) -> None:
        """Record whether the last draft was right throughout."""
        self._truthful = self._back == right

    def renew(self, forgotten: int) -> None:
        """Forget the row's tokens, this number of which it no longer sees."""
        self._own = _Copied()
        self._forgotten += forgotten


def _matched(sequence: Sequence[int], place: int, read: Sequence[int]) -> int:
    count = 0
    while count < min(LONGEST_MATCH, place, len(read)) and sequence[place - 1 - count] == read[-1 - count]:
        count += 1
    return count
