"""Statistics of right-or-wrong outcomes: intervals for one rate, and paired comparisons on the same examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy import stats

Z95 = float(stats.norm.ppf(0.975))


class Estimate(NamedTuple):
    """A rate or a mean of `size` values with its 95 % interval, of the kind that the function names which estimates it."""

    mean: float
    low: float
    high: float
    size: int


def rate(outcomes: Sequence[bool]) -> Estimate:
    """The share of true outcomes with its Wilson (1927) score interval.

    Raises:
        ValueError: there are no outcomes.
    """
    if not len(outcomes):
        raise ValueError("no outcomes")
    right = int(np.sum(outcomes))
    interval = stats.binomtest(right, len(outcomes)).proportion_ci(0.95, method="wilson")
    return Estimate(right / len(outcomes), float(interval.low), float(interval.high), len(outcomes))


def mean(values: Sequence[float]) -> Estimate:
    """The mean of shares between 0 and 1 with its 95 % t interval, cut to that range; of one value, all of the range.

    Raises:
        ValueError: there are no values.
    """
    if not len(values):
        raise ValueError("no values")
    centre = float(np.mean(values))
    if len(values) == 1:
        return Estimate(centre, 0.0, 1.0, 1)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error if error else 0.0
    return Estimate(centre, max(centre - half, 0.0), min(centre + half, 1.0), len(values))


class Unpaired(NamedTuple):
    """Two rates of different examples, and their difference (treatment minus baseline)."""

    baseline: float
    treatment: float
    difference: float
    low: float
    high: float
    p_value: float


def unpaired(baseline: Sequence[bool], treatment: Sequence[bool]) -> Unpaired:
    """Difference of two independent rates with Newcombe's 95 % interval from Wilson intervals ("Interval estimation for the
    difference between independent proportions", Statistics in Medicine 17, 1998, method 10), and Fisher's exact test.

    Raises:
        ValueError: one side has no outcomes.
    """
    before, after = rate(baseline), rate(treatment)
    difference = after.mean - before.mean
    low = difference - math.hypot(after.mean - after.low, before.high - before.mean)
    high = difference + math.hypot(after.high - after.mean, before.mean - before.low)
    right = [int(np.sum(baseline)), int(np.sum(treatment))]
    wrong = [before.size - right[0], after.size - right[1]]
    p_value = float(stats.fisher_exact([right, wrong]).pvalue)
    return Unpaired(before.mean, after.mean, difference, low, high, p_value)


class Paired(NamedTuple):
    """Two conditions on the same examples. `gained`: wrong in the baseline, right in the treatment; `lost`: the reverse."""

    examples: int
    baseline: float
    treatment: float
    difference: float
    low: float
    high: float
    p_value: float
    gained: int
    lost: int


def paired(baseline: Sequence[bool], treatment: Sequence[bool]) -> Paired:
    """Difference of two paired rates with a 95 % interval, and McNemar's exact test.

    The interval is Agresti & Min's adjusted Wald interval for matched pairs ("Simple improved confidence intervals for
    comparing matched proportions", Statistics in Medicine 24, 2005): half an observation is added to each of the four
    cells. The p-value is the two-sided exact binomial test of gained against lost pairs.

    Raises:
        ValueError: the sequences differ in length or are empty.
    """
    before, after = np.asarray(baseline, dtype=bool), np.asarray(treatment, dtype=bool)
    if before.shape != after.shape or not len(before):
        raise ValueError("paired outcomes need two equally long, non-empty sequences")
    count = len(before)
    gained, lost = int((~before & after).sum()), int((before & ~after).sum())
    p_value = float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    total, up, down = count + 2, gained + 0.5, lost + 0.5
    centre = (up - down) / total
    half = Z95 * math.sqrt(max(up + down - (up - down) ** 2 / total, 0)) / total
    return Paired(
        count,
        float(before.mean()),
        float(after.mean()),
        (gained - lost) / count,
        max(centre - half, -1.0),
        min(centre + half, 1.0),
        p_value,
        gained,
        lost,
    )


class VerdictWord(StrEnum):
    """What a paired comparison says of a mitigation."""

    FIXED = "fixed"
    """Significantly better, and enough examples are right."""
    HELPED = "helped"
    """Significantly better."""
    NO_EVIDENCE = "no evidence"
    """Not significantly different."""
    WORSE = "worse"
    """Significantly worse."""


def verdict(result: Paired, level: float = 0.05, enough: float = 0.95) -> VerdictWord:
    """What a comparison says at a level of significance; `enough`: the share of right answers that counts as fixed."""
    if result.p_value >= level:
        return VerdictWord.NO_EVIDENCE
    if result.difference < 0:
        return VerdictWord.WORSE
    return VerdictWord.FIXED if result.treatment >= enough else VerdictWord.HELPED
