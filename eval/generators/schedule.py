"""Schedule of drafts: their lengths, and which rows are read in one call.

A call of n tokens costs `overhead + n`. The overhead is hundreds of tokens on an accelerator or for a small model. Nothing is
timed, so that evaluations on machines of one kind make the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence


def width(lengths: Sequence[int], overhead: float) -> int:
    """Return the width of a padded call that reads most wanted tokens per cost."""
    return max(
        sorted(set(lengths)), key=lambda most: sum(min(most, n) for n in lengths) / (overhead + most * len(lengths))
    )


def even_width(lengths: Sequence[int]) -> int:
    """Return the width without padding: a power of two that half of the rows reach."""
    return power_below(sorted(lengths)[len(lengths) // 2])


def power_below(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def calls(lengths: Sequence[int], overhead: float, even: bool, most: int) -> list[list[int]]:
    """Group the indices of chunks by the call that reads them.

    `even`: chunks of one call have one length; else they are padded, by at most `overhead` tokens in all. `most`: tokens of a call.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    groups: list[list[int]] = []
    padding = width = 0
    for index in order:
        waste = width - lengths[index]
        fits = bool(groups) and width * (len(groups[-1]) + 1) <= most
        if fits and (waste == 0 if even else padding + waste <= overhead):
            groups[-1].append(index)
            padding += waste
        else:
            groups.append([index])
            padding, width = 0, lengths[index]
    return groups
