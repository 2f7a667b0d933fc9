"""The words for a comparison, from its intervals alone, and the level of each among several comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from remedy.eval.stats.clusters import LEVEL
from remedy.eval.stats.differences import Difference
from remedy.eval.stats.seeds import BAR, Repeated

MARGIN = 0.02
"""A recipe that loses less than this is as good."""


class VerdictWord(StrEnum):
    """What a comparison says of a recipe, or of a run where there is one seed."""

    FIXED = "fixed"
    """Better, and the failure is gone: see `word`."""
    HELPED = "helped"
    """Better."""
    AS_GOOD = "as good"
    """Not shown to differ, and shown to lose less than the margin."""
    WORSE = "worse"
    """Worse."""
    UNDECIDED = "undecided"
    """None of these is shown."""


def word(
    found: Difference, baseline: Repeated, treatment: Repeated, level: float = LEVEL, margin: float = MARGIN
) -> VerdictWord:
    """What a comparison says.

    Helped and worse: the interval of the difference leaves out 0. Fixed: helped, the baseline's rate is below `BAR` with all of its
    interval, and the treatment solves the task: of one run, the lower end of its rate reaches `BAR`; of a recipe, more than
    half of all its trainings do so, with the lower end of their share (six of six seeds; five of five leave 48 %). As good: the lower
    end of the difference is above -`margin`, and the baseline has more than that to lose.
    """
    low, high = found.interval(level)
    if high < 0:
        return VerdictWord.WORSE
    if low > 0:
        return VerdictWord.FIXED if _failed(baseline) and _solves(treatment, found.repeated) else VerdictWord.HELPED
    as_good = low > -margin and baseline.estimate.mean > margin  # of a rate below the margin no one could lose it
    return VerdictWord.AS_GOOD if as_good else VerdictWord.UNDECIDED


def _failed(baseline: Repeated) -> bool:
    return baseline.estimate.high < BAR


def _solves(treatment: Repeated, repeated: bool) -> bool:
    if repeated:
        return treatment.solved_low > 0.5
    return treatment.solved == len(treatment.points)


def levels(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level at which each of several comparisons is judged (Holm, 1979), so that all hold together: the interval of that level
    leaves out 0 where, and only where, Holm's procedure rejects."""
    order = np.argsort(p_values, kind="stable")
    found, rejecting = [level] * len(p_values), True
    last = level
    for rank, place in enumerate(order):
        if rejecting:
            last = level / (len(order) - rank)
            rejecting = p_values[place] < last
        found[int(place)] = last
    return found
