"""Exact tests of trainings: of rates, and of how many solve the task."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from remedy.eval.stats.clusters import LEVEL

Counts = npt.NDArray[np.int64]


class PValues(NamedTuple):
    """One-sided p-values, one for each direction."""

    up: float
    """Small if the treatment is better."""
    down: float
    """Small if it is worse."""

    @property
    def p_value(self) -> float:
        """Two-sided: twice the smaller one."""
        return min(1.0, 2 * min(self))


def clopper_pearson(count: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """Compute the exact interval of a rate (Clopper and Pearson, 1934)."""
    from scipy import special  # here, since settings are read without it

    if not of:
        return 0.0, 1.0
    low = special.betaincinv(count, of - count + 1, level / 2) if count else 0.0
    high = special.betaincinv(count + 1, of - count, 1 - level / 2) if count < of else 1.0
    return float(low), float(high)


@cache
def boschloo(solved: int, trainings: int, solved_after: int, trainings_after: int) -> PValues:
    """Test if two recipes solve a task equally often (Boschloo's test).

    "Raised conditional level of significance for the 2x2-table when testing the equality of two probabilities",
    Statistica Neerlandica 24, 1970. The first two arguments are of the baseline.
    """
    from scipy import stats  # here, since importing it takes a second

    table = [[solved_after, solved], [trainings_after - solved_after, trainings - solved]]
    if solved + solved_after in (0, trainings + trainings_after):
        return PValues(1.0, 1.0)  # SciPy divides by zero there
    up, down = (float(stats.boschloo_exact(table, alternative=side).pvalue) for side in ("greater", "less"))
    return PValues(min(up, 1.0), min(down, 1.0))


def permutation_test(before: Counts, after: Counts) -> PValues:
    """Test if trainings of two recipes have the same mean of right answers.

    Every k trainings of the smaller side are exchanged with an equal share of the other side. A p-value is the share of
    exchanges with a difference as extreme as the real one. Equal shares keep each side's spread if the numbers differ
    (Romano, "On the behavior of randomization tests without a group invariance assumption", JASA 85, 1990).
    """
    return PValues(_as_high(before, after), _as_high(after, before))


def _as_high(before: Counts, after: Counts) -> float:
    smaller, least = min(len(before), len(after)), min(before.min(), after.min())
    distributions, shares = [_sums(side - least) for side in (before, after)], []
    for k in range(smaller + 1):
        sizes = [round(k * len(side) / smaller) for side in (before, after)]
        of_baseline, of_treatment = (sums[size] for sums, size in zip(distributions, sizes))
        # For each sum of the treatment's k: the share of choices of the baseline's whose mean is as high.
        least_sums = -(-np.arange(len(of_treatment)) * sizes[0] // max(sizes[1], 1))
        above = np.append(of_baseline[::-1].cumsum()[::-1], 0.0)[least_sums.clip(max=len(of_baseline))]
        shares.append(math.comb(smaller, k) ** 2 / math.comb(2 * smaller, smaller) * float(of_treatment @ above))
    return round(sum(shares), 12)  # equal shares must be equal floats: Holm's ranks depend on it


def _sums(counts: Counts) -> npt.NDArray[np.float64]:
    """Return probabilities (k, sum) of the sum of k counts drawn without replacement."""
    ways = np.zeros((len(counts) + 1, int(counts.sum()) + 1))
    ways[0, 0] = 1
    for count in counts:  # from a copy, so that each is drawn once at most
        ways[1:, count:] += ways[:-1, : ways.shape[1] - count].copy()
    return np.asarray(ways / ways.sum(axis=1, keepdims=True))


def sign_flips(changes: Counts) -> PValues:
    """Test if matched trainings change by chance (Fisher's randomisation test).

    `changes`: right answers gained by each. A p-value is the share of the 2^n signs with a sum as extreme.
    """
    sizes = np.abs(changes)
    ways = np.zeros(int(sizes.sum()) + 1)
    ways[0] = 1
    for size in sizes:
        ways[size:] += ways[: len(ways) - size].copy()
        ways /= ways.max()  # against overflow of 2^n
    observed, total = int(changes[changes > 0].sum()), ways.sum()
    return PValues(float(ways[observed:].sum() / total), float(ways[: observed + 1].sum() / total))


def most_failing(failed: int, trainings: int, level: float = LEVEL) -> float:
    """Return the one-sided upper bound of the share of trainings that fail."""
    return clopper_pearson(failed, trainings, 2 * level)[1]


@cache
def power_of_solved(shares: tuple[float, float], trainings: tuple[int, int], level: float = LEVEL) -> float:
    """Compute the power of `boschloo`; `shares`: trainings that solve, per side."""
    from scipy import stats  # here, since importing it takes a second

    before, after = (stats.binom.pmf(np.arange(count + 1), count, share) for count, share in zip(trainings, shares))
    decided = [
        [boschloo(first, trainings[0], second, trainings[1]).p_value < level for second in range(len(after))]
        for first in range(len(before))
    ]
    return float(before @ decided @ after)
