"""How much is guessed, and which rows are read in one call: by what a call costs beside its tokens, and how often guesses were right.

Costs are counted in tokens: a call of n tokens takes the time of `overhead + n`. That of an accelerator or of a small model, whose
weights take longer to be fetched or whose modules to be called than a token to be computed, is hundreds. Nothing is timed: two
evaluations on machines of one kind make the same calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from remedy.eval.generators.drafts import Source

TO_THE_END = (0.95, 1.0)
"""Rows whose truth was right to its end, and rows, as if they had been seen before: at first all of the truth is offered at once."""
LEFT_OVER = 2 / 3
"""How much of a truth that is wrong somewhere lies after that place, in the mean over those that were tried."""
PRIOR = ((9.8, 10.0), (3.0, 4.0), (3.0, 4.0))
"""For each source of guesses: tokens right and tokens judged, as if they had been seen before."""
MEMORY = 0.8
"""What a row's own record is multiplied with when it is judged again: it is of late."""
ROUNDS, LEAST_ROUNDS = 8, 2
"""After how many rounds of a row, or of how many rows, and at least, it is seen whether guesses pay."""
PAUSE, LONGER, LONGEST_PAUSE = 16, 4, 1024
"""Steps without guesses where they did not: at first, how many times as many where they do not again, and at most."""
OWN = 8.0
"""How many judged tokens of its own weigh as much as all that is known of other rows."""


class Record:
    """How often guesses of each source were right."""

    def __init__(self, prior: Sequence[tuple[float, float]] = PRIOR, memory: float = 1.0) -> None:
        self._memory = memory
        self._right = [right for right, _ in prior]
        self._judged = [judged for _, judged in prior]

    def judge(self, source: Source, right: int, wrong: bool) -> None:
        """So many of its tokens were right, and whether one was wrong after them."""
        self._right[source] = self._right[source] * self._memory + right
        self._judged[source] = self._judged[source] * self._memory + right + wrong

    def counts(self, source: Source) -> tuple[float, float]:
        return self._right[source], self._judged[source]

    def rate(self, source: Source) -> float:
        right, judged = self.counts(source)
        return right / judged


class Account:
    """What was spent with guesses, and what the plain loop would have spent on the same tokens. Where that is less, guesses pause.

    `bookkeeping`: what a row of a call takes beside its tokens.
    """

    def __init__(self, overhead: float, bookkeeping: float) -> None:
        self.overhead, self.bookkeeping = overhead, bookkeeping
        self.spent = self.earned = 0.0
        self.rounds = 0
        self.pause = 0
        """Steps to be made without guesses."""
        self.next_pause = PAUSE

    def spend(self, width: int, rows: int) -> None:
        """A call was made of so many rows, padded to this width."""
        self.spent += self.overhead + rows * (width + self.bookkeeping)

    def earn(self, tokens: int, rows: int) -> None:
        """In a round, rows came on by so many tokens in all."""
        self.earned += tokens * (self.overhead / rows + 1)
        self.rounds += 1
        if self.rounds < max(LEAST_ROUNDS, ROUNDS / rows):
            return
        if self.earned < self.spent:
            self.pause, self.next_pause = self.next_pause, min(LONGER * self.next_pause, LONGEST_PAUSE)
        else:
            self.next_pause = PAUSE
        self.spent = self.earned = 0.0
        self.rounds = 0


def chance(all_rows: Record, row: Record, source: Source) -> float:
    """How likely the next guessed token of a row is right."""
    right, judged = row.counts(source)
    return (OWN * all_rows.rate(source) + right) / (OWN + judged)


def worthwhile(chance: float, saved: float) -> int:
    """How many tokens are guessed: as long as one saves more than it costs. `saved`: tokens' time that one which is right saves."""
    if chance * saved <= 1:
        return 0
    return math.floor(math.log(saved) / -math.log(min(chance, 1 - 1e-6)))


def at_once(right: float, tokens: int, step: int, saved: float) -> bool:
    """Whether it pays to offer all tokens of the truth in one call: what the other calls of `step` tokens would cost if it is right to
    its end, against what is read for nothing if it is not."""
    others = math.ceil(tokens / max(1, step)) - 1
    return right * others * (saved - 1) >= (1 - right) * LEFT_OVER * tokens


def width(lengths: Sequence[int], overhead: float) -> int:
    """How many tokens rows read at most in one call that is padded to that: where most of what they would read is read in its time."""
    return max(
        sorted(set(lengths)), key=lambda most: sum(min(most, n) for n in lengths) / (overhead + most * len(lengths))
    )


def even_width(lengths: Sequence[int]) -> int:
    """How many tokens rows read in one call that is not padded: as many as half of them would, a power of two; others read one."""
    return power_below(sorted(lengths)[len(lengths) // 2])


def power_below(count: int) -> int:
    """The largest power of two that is no more."""
    return 1 << (count.bit_length() - 1)


def calls(lengths: Sequence[int], overhead: float, even: bool, most: int) -> list[list[int]]:
    """Places of chunks by the call that reads them. `even`: those of one call are of one length; else they are padded, by at most
    `overhead` tokens in all. `most`: tokens of a call, if it has more than one row."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    found: list[list[int]] = []
    padding = width = 0
    for place in order:
        waste = width - lengths[place]
        fits = bool(found) and width * (len(found[-1]) + 1) <= most
        if fits and (waste == 0 if even else padding + waste <= overhead):
            found[-1].append(place)
            padding += waste
        else:
            found.append([place])
            padding, width = 0, lengths[place]
    return found
