"""Schedule of drafts: how much is guessed, and which rows are read in one call, by what a call costs beside its tokens.

Costs are counted in tokens: a call of n tokens takes the time of `overhead + n`. That of an accelerator or of a small model, whose
weights take longer to be fetched or whose modules to be called than a token to be computed, is hundreds. Nothing is timed: two
evaluations on machines of one kind make the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence


def width(lengths: Sequence[int], overhead: float) -> int:
    """Return how many tokens rows read at most in one call that is padded to that: where most of what they would read is read in its
    time."""
    return max(
        sorted(set(lengths)), key=lambda most: sum(min(most, n) for n in lengths) / (overhead + most * len(lengths))
    )


def even_width(lengths: Sequence[int]) -> int:
    """Return how many tokens rows read in one call that is not padded: as many as half of them would, a power of two; others read
    one."""
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
