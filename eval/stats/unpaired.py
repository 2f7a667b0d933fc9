"""Two rates of different examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from remedy.eval.stats.rates import rate


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
