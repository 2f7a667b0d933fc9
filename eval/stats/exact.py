"""Exact tests of trainings: of how many solve the task, and of their rates. Two-sided p-values are twice the smaller one-sided one."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from remedy.eval.stats.clusters import LEVEL

Counts = npt.NDArray[np.int64]


class Test(NamedTuple):
    """A one-sided p-value for each direction."""

    up: float
    """Of the treatment being better."""
    down: float
    """Of it being worse."""

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return min(1.0, 2 * min(self))


def clopper_pearson(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a rate (Clopper and Pearson, 1934) of confidence 1 - `level`: 0 to 1 of nothing."""
    if not of:
        return 0.0, 1.0
    low = special.betaincinv(count, of - count + 1, level / 2) if count else 0.0
    high = special.betaincinv(count + 1, of - count, 1 - level / 2) if count < of else 1.0
    return float(low), float(high)


@cache
def boschloo(solved: int, trainings: int, solved_after: int, trainings_after: int) -> Test:
    """Test if two recipes solve a task equally often, of the baseline and of the treatment: Boschloo's unconditional test ("Raised
    conditional level of significance for the 2x2-table when testing the equality of two probabilities", Statistica Neerlandica 24,
    1970)."""
    from scipy import stats  # takes a second to import

    table = [[solved_after, solved], [trainings_after - solved_after, trainings - solved]]
    if solved + solved_after in (0, trainings + trainings_after):
        return Test(1.0, 1.0)  # SciPy divides by zero there
    up, down = (float(stats.boschloo_exact(table, alternative=side).pvalue) for side in ("greater", "less"))
    return Test(min(up, 1.0), min(down, 1.0))


def mcnemar(gained: int, lost: int) -> Test:
    """The same where each training is on both sides: of those that solve the task on one side alone, how many do so in the
    treatment (McNemar's exact test)."""
    from scipy import stats  # takes a second to import

    return Test(*(float(stats.binom.sf(one - 1, gained + lost, 0.5)) for one in (gained, lost)))


def permutation(before: Counts, after: Counts) -> Test:
    """Test if the rates of two recipes' trainings are draws of one distribution: of all ways to call as many trainings the treatment's,
    the share in which its mean is as high, and as low, as it is. `before`, `after`: right answers of each training, out of the same
    number.

    All C(n1 + n2, n2) ways are counted, by their sums: ways[k, s] of k trainings with s right answers, up to a common factor.
    """
    every = np.concatenate([before, after])
    every, own = every - every.min(), int((after - every.min()).sum())
    ways = np.zeros((len(after) + 1, int(every.sum()) + 1))
    ways[0, 0] = 1
    for one in every:
        ways[1:, one:] += ways[:-1, : ways.shape[1] - one].copy()
        ways /= ways.max()
    return _tails(ways[-1], own)


def sign_flips(changes: Counts) -> Test:
    """Test if trainings that are on both sides change by chance alone: of all 2^n choices of signs, the share with as high, and as
    low, a sum as it is (Fisher's randomisation test). `changes`: right answers gained by each training."""
    sizes = np.abs(changes)
    ways = np.zeros(int(sizes.sum()) + 1)
    ways[0] = 1
    for one in sizes:
        ways[one:] += ways[: len(ways) - one].copy()
        ways /= ways.max()
    return _tails(ways, int(changes[changes > 0].sum()))


def _tails(ways: npt.NDArray[np.float64], at: int) -> Test:
    total = ways.sum()
    return Test(float(ways[at:].sum() / total), float(ways[: at + 1].sum() / total))


def most_failing(failed: int, trainings: int, level: float = LEVEL) -> float:
    """The share of all trainings that fail at most, with confidence 1 - `level`, one-sided."""
    return clopper_pearson(failed, trainings, 2 * level)[1]


@cache
def power_of_solved(shares: tuple[float, float], trainings: tuple[int, int], level: float = LEVEL) -> float:
    """The probability that `boschloo` decides, where trainings of the baseline and of the treatment solve with these shares."""
    from scipy import stats  # takes a second to import

    chances = [stats.binom.pmf(np.arange(count + 1), count, share) for count, share in zip(trainings, shares)]
    return float(
        sum(
            chances[0][first] * chances[1][second]
            for first in range(trainings[0] + 1)
            for second in range(trainings[1] + 1)
            if boschloo(first, trainings[0], second, trainings[1]).p_value < level
        )
    )
