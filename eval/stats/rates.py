"""One rate, or one mean of shares, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, freedom, quantile, variance_of_mean


class Estimate(NamedTuple):
    """A rate or a mean of `size` values with its 95 % interval, of the kind that the function names which estimates it.

    `effective`: so many independent values would say as much; `size` unless values are drawn in clusters.
    """

    mean: float
    low: float
    high: float
    size: int
    effective: float


def rate(outcomes: Sequence[bool], clusters: Sequence[object] | None = None) -> Estimate:
    """The share of true outcomes with its Wilson (1927) score interval.

    `clusters`: what each outcome is drawn with. Then the interval is Wilson's of as many outcomes as the design effect leaves,
    and fewer for the few clusters that it is estimated from (Korn and Graubard, "Confidence intervals for proportions with small
    expected number of positive counts estimated from survey data", Survey Methodology 24, 1998).

    Raises:
        ValueError: there are no outcomes, or not as many clusters as outcomes.
    """
    if not len(outcomes):
        raise ValueError("no outcomes")
    return _scored(np.asarray(outcomes, dtype=float), codes(clusters, len(outcomes)))


def pooled(right: Sequence[int], of: Sequence[int], clusters: Sequence[object]) -> Estimate:
    """The share of right steps among all steps of several examples, `right` out of `of` in each, with the interval that `rate` gives
    the steps as outcomes in their examples' clusters. `size`: how many steps there are.

    Raises:
        ValueError: there are no steps, or not as many clusters as examples.
    """
    if not sum(of):
        raise ValueError("no steps")
    examples = codes(clusters, len(of))
    counts = np.array([right, np.subtract(of, right)]).T.reshape(-1)
    values = np.repeat(np.tile([1.0, 0.0], len(of)), counts)
    _, steps = np.unique(np.repeat(examples, of), return_inverse=True)
    return _scored(values, steps)


def compound(
    steps: Floats, rates: Sequence[tuple[float, float, float]], clusters: Sequence[object]
) -> tuple[float, float, float]:
    """The share of programs without an error, and its 95 % interval, if their steps failed independently at given rates: the mean
    over programs of the product of the rates, each to the power of the program's own number of steps.

    `steps`: of every program and kind, (P, K); `rates`: share of right steps and the ends of its interval, for each kind. The
    interval joins what the rates leave open, all at their lower or upper ends, and what other programs would change (Zou and
    Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 27, 2008).
    """
    counts = np.asarray(steps, dtype=float)
    centres, lows, highs = (np.prod(np.asarray(ends) ** counts, axis=1) for ends in zip(*rates, strict=True))
    expected, of = float(centres.mean()), codes(clusters, len(counts))
    degrees = int(of.max())
    among = quantile(LEVEL, degrees) * math.sqrt(variance_of_mean(centres, of)) if degrees else 0.0
    low = expected - math.hypot(expected - lows.mean(), among)
    high = expected + math.hypot(highs.mean() - expected, among)
    return expected, max(low, 0.0), min(high, 1.0)


def mean(values: Sequence[float], clusters: Sequence[object] | None = None) -> Estimate:
    """The mean of shares between 0 and 1 with its 95 % t interval over clusters, cut to that range; of one cluster, all of it.

    Where the values do not differ, so that their spread says nothing, it is Wilson's interval of as many outcomes as clusters.

    Raises:
        ValueError: there are no values, or not as many clusters as values.
    """
    if not len(values):
        raise ValueError("no values")
    found, of = np.asarray(values, dtype=float), codes(clusters, len(values))
    centre, count = float(found.mean()), int(of.max()) + 1
    effective = len(found) / design_effect(found, of)
    if count == 1:
        return Estimate(centre, 0.0, 1.0, len(found), effective)
    variance = variance_of_mean(found, of)
    if variance < 1e-12:
        return Estimate(centre, *_wilson(centre, count), len(found), effective)
    half = quantile(LEVEL, count - 1) * math.sqrt(variance)
    return Estimate(centre, max(centre - half, 0.0), min(centre + half, 1.0), len(found), effective)


def _scored(values: Floats, of: Codes) -> Estimate:
    """A rate with Wilson's interval of an effective size, less what the few clusters that it is estimated from cost: the interval of
    Student's t in place of the normal."""
    effective, degrees, share = len(values) / design_effect(values, of), freedom(of), float(values.mean())
    size = effective * (quantile(LEVEL, float("inf")) / quantile(LEVEL, degrees)) ** 2 if degrees else 1e-9
    return Estimate(share, *_wilson(share, size), len(values), effective)


def _wilson(share: float, size: float) -> tuple[float, float]:
    z2 = quantile(LEVEL, float("inf")) ** 2
    centre = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = math.sqrt(z2 * (share * (1 - share) / size + z2 / (4 * size**2))) / (1 + z2 / size)
    return (0.0 if share == 0 else max(centre - half, 0.0)), (1.0 if share == 1 else min(centre + half, 1.0))
