"""Schedule of drafts: their lengths, and which rows are read in one call.

A call of n tokens costs `overhead + n`. The overhead of an accelerator or a small model is hundreds of tokens, since fetching
weights or calling modules takes longer than computing a token. Nothing is timed, so two evaluations on machines of one kind make
the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence


def width(lengths: Sequence[int], overhead: float) -> int:
    """Return the width of a padded call that reads most wanted tokens per cost.

    `lengths`: tokens wanted by each row.
    """
    return max(
        sorted(set(lengths)), key=lambda most: sum(min(most, n) for n in lengths) / (overhead + most * len(lengths))
    )


def even_width(lengths: Sequence[int]) -> int:
    """Return the width of a call without padding.

    It is the power of two that half of the rows reach. The other rows read one token each.
    """
    return power_below(sorted(lengths)[len(lengths) // 2])


def power_below(count: int) -> int:
    """Return the largest power of two that is not above `count`."""
    return 1 << (count.bit_length() - 1)


def calls(lengths: Sequence[int], overhead: float, even: bool, most: int) -> list[list[int]]:
    """Return the indices of chunks, grouped by the call that reads them.

    `even`: chunks of one call have one length; else they are padded, by at most `overhead` tokens in all. `most`: tokens of a call
    with several rows.
    """
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
