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


class _NgramIndex:
    """Index of the n-grams of a sequence that a row may follow."""

    def __init__(self) -> None:
        self._seen = 0
        self._after: dict[tuple[int, ...], list[int]] = {}

    def best_match(self, tokens: Sequence[int], read: Sequence[int], expected: int) -> tuple[int, int] | None:
        """Return the length and position of the best match with the last tokens read.

        Candidates are near the expected position.
        """
        self._add(tokens)
        positions = next((positions for size in GRAMS if (positions := self._after.get(tuple(read[-size:])))), [])
        middle = bisect(positions, expected)
        candidates = positions[max(0, middle - CANDIDATES) : middle + CANDIDATES]
        candidates += [expected] * (expected < len(tokens))
        ranked = [
            (_match_length(tokens, position, read), -abs(position - expected), position) for position in candidates
        ]
        if not ranked:
            return None
        matched, _, position = max(ranked)
        return matched, position

    def _add(self, tokens: Sequence[int]) -> None:
        for end in range(self._seen + 1, len(tokens)):
            for size in GRAMS:
                if size <= end:
                    self._after.setdefault(tuple(tokens[end - size : end]), []).append(end)
        self._seen = max(self._seen, len(tokens) - 1)


class Drafter:
    """Drafts for one example."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._truth = _NgramIndex()
        self._read = _NgramIndex()
        self._forgotten = 0
        self._drafted_truth = self._prefers_truth = True
        """Whether the last draft came from the truth, and whether the truth is preferred if both candidates match equally."""

    def draft(self, read: Sequence[int], room: int, reach: int) -> list[int]:
        """Return tokens that may follow: at most `room` on the truth, else `reach`."""
        cursor = self.cursor
        if not cursor.done and cursor.run + 1 == len(cursor.runs) and not cursor.runs[cursor.run][2]:
            # Nothing is fed after the last run, so a longer draft would be read in vain.
            room = min(room, cursor.remaining)
        if (ahead := cursor.ahead(room)) is not None:
            self._drafted_truth = True
            return ahead[1]
        in_truth = self._truth.best_match(cursor.ids, read, len(read) + self._forgotten)
        in_read = self._read.best_match(read, read, len(read))
        count = min(room, reach)
        if count < 1 or (in_truth is None and in_read is None):
            return []
        prefers = self._prefers_truth
        self._drafted_truth = in_read is None or (
            in_truth is not None and (in_truth[0], prefers) > (in_read[0], not prefers)
        )
        if in_truth is not None and self._drafted_truth:
            return cursor.complete_draft(list(cursor.ids[in_truth[1] : in_truth[1] + count]), count)
        assert in_read is not None
        tokens = list(read[in_read[1] : in_read[1] + count])
        # A copy longer than its source repeats it: models that loop write such text until the limit.
        count = min(count, cursor.remaining)
        return cursor.complete_draft((tokens * math.ceil(count / len(tokens)))[:count], count)

    def record_result(self, right: bool) -> None:
        """Record whether the last draft was right throughout."""
        self._prefers_truth = self._drafted_truth == right

    def renew(self, forgotten: int) -> None:
        """Forget the row's tokens, this number of which it no longer sees."""
        self._read = _NgramIndex()
        self._forgotten += forgotten


def _match_length(sequence: Sequence[int], position: int, read: Sequence[int]) -> int:
    count = 0
    while count < min(LONGEST_MATCH, position, len(read)) and sequence[position - 1 - count] == read[-1 - count]:
        count += 1
    return count
