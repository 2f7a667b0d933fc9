"""Exact tests of trainings: of how many solve the task, and of their rates. Two-sided p-values are twice the smaller one-sided one."""

from __future__ import annotations

import math
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


def permutation(before: Counts, after: Counts) -> Test:
    """Test if two recipes' trainings have one mean: exchange k trainings of the smaller side, at random, for as large a share of the
    other's, and count how often the difference is as high, and as low, as it is. `before`, `after`: right answers of each training,
    out of the same number.

    With equal numbers these are all ways to call as many trainings the treatment's. With others, calling all trainings alike would
    give the side with fewer the spread of the other; exchanging equal shares leaves each side's in its place, as in a test of equal
    numbers (Romano, "On the behavior of randomization tests without a group invariance assumption", JASA 85, 1990). A better training
    of the treatment raises no count of the first kind, since it stands on one side of each exchange or on neither.
    """
    return Test(_as_high(before, after), _as_high(after, before))


def _as_high(before: Counts, after: Counts) -> float:
    few, least = min(len(before), len(after)), min(before.min(), after.min())
    ways, shares = [_sums(side - least) for side in (before, after)], []
    for k in range(few + 1):
        sizes = [round(k * len(side) / few) for side in (before, after)]
        first, second = (sums[size] for sums, size in zip(ways, sizes))
        # The share of the baseline's choices whose mean is as high as one of the treatment's with the sum s.
        least_sums = -(-np.arange(len(second)) * sizes[0] // max(sizes[1], 1))
        above = np.append(first[::-1].cumsum()[::-1], 0.0)[least_sums.clip(max=len(first))]
        shares.append(math.comb(few, k) ** 2 / math.comb(2 * few, few) * float(second @ above))
    return round(sum(shares), 12)  # equal ones to be equal whatever the order of sums: Holm's ranks hang on it


def _sums(counts: Counts) -> npt.NDArray[np.float64]:
    """The distribution of the sum of k of these counts, drawn without replacement: a row for each k, of its probabilities."""
    ways = np.zeros((len(counts) + 1, int(counts.sum()) + 1))
    ways[0, 0] = 1
    for count in counts:
        ways[1:, count:] += ways[:-1, : ways.shape[1] - count].copy()
    return np.asarray(ways / ways.sum(axis=1, keepdims=True))


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
