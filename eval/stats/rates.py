"""Rates and means of shares, each with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, freedom, quantile, variance_of_mean


class Estimate(NamedTuple):
    """A rate, or a mean of `size` values, with its 95 % interval.

    `effective`: the number of independent values that tell as much.
    """

    mean: float
    low: float
    high: float
    size: int
    effective: float


def rate(outcomes: Sequence[bool], clusters: Sequence[object] | None = None) -> Estimate:
    """Estimate the share of true outcomes with Wilson's (1927) score interval.

    Clusters count by their effective size (Korn and Graubard, "Confidence intervals for proportions with small expected
    number of positive counts estimated from survey data", Survey Methodology 24, 1998).

    Raises:
        ValueError: there are no outcomes, or clusters and outcomes differ in number.
    """
    if not len(outcomes):
        raise ValueError("no outcomes")
    return _scored(np.asarray(outcomes, dtype=float), codes(clusters, len(outcomes)))


def pooled(right: Sequence[int], tried: Sequence[int], clusters: Sequence[object]) -> Estimate:
    """Estimate the share of right steps in all examples together, as `rate`.

    Raises:
        ValueError: there are no steps, or clusters and examples differ in number.
    """
    if not sum(tried):
        raise ValueError("no steps")
    examples = codes(clusters, len(tried))
    counts = np.array([right, np.subtract(tried, right)]).T.reshape(-1)
    values = np.repeat(np.tile([1.0, 0.0], len(tried)), counts)
    _, steps = np.unique(np.repeat(examples, tried), return_inverse=True)  # numbers anew: an example may have no steps
    return _scored(values, steps)


def compound(
    steps: Floats, rates: Sequence[tuple[float, float, float]], clusters: Sequence[object]
) -> tuple[float, float, float]:
    """Estimate the share of programs without error if their steps fail independently.

    `steps`: (P, K), the number of each program's steps of each kind. `rates`: right steps by kind, with interval ends.
    The estimate is the mean product of rates^steps. Its 95 % interval joins the uncertainty of rates and programs (Zou
    and Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine
    27, 2008).
    """
    counts = np.asarray(steps, dtype=float)
    centres, lows, highs = (np.prod(np.asarray(ends) ** counts, axis=1) for ends in zip(*rates, strict=True))
    expected, cluster_of = float(centres.mean()), codes(clusters, len(counts))
    degrees = int(cluster_of.max())
    over_programs = quantile(LEVEL, degrees) * math.sqrt(variance_of_mean(centres, cluster_of)) if degrees else 0.0
    low = expected - math.hypot(expected - lows.mean(), over_programs)
    high = expected + math.hypot(highs.mean() - expected, over_programs)
    return expected, max(low, 0.0), min(high, 1.0)


def mean(values: Sequence[float], clusters: Sequence[object] | None = None) -> Estimate:
    """Estimate the mean of shares with its t interval over clusters, cut to [0, 1].

    One cluster gives [0, 1]; equal values give Wilson's interval of as many outcomes as clusters.

    Raises:
        ValueError: there are no values, or clusters and values differ in number.
    """
    if not len(values):
        raise ValueError("no values")
    shares, cluster_of = np.asarray(values, dtype=float), codes(clusters, len(values))
    centre, count = float(shares.mean()), int(cluster_of.max()) + 1
    effective = len(shares) / design_effect(shares, cluster_of)
    if count == 1:
        return Estimate(centre, 0.0, 1.0, len(shares), effective)
    variance = variance_of_mean(shares, cluster_of)
    if variance < 1e-12:
        return Estimate(centre, *_wilson(centre, count), len(shares), effective)
    half = quantile(LEVEL, count - 1) * math.sqrt(variance)
    return Estimate(centre, max(centre - half, 0.0), min(centre + half, 1.0), len(shares), effective)


def _scored(values: Floats, cluster_of: Codes) -> Estimate:
    effective, degrees = len(values) / design_effect(values, cluster_of), freedom(cluster_of)
    share = float(values.mean())
    # Smaller by the squared ratio of Student's to the normal's quantile: few clusters tell the design effect badly.
    size = effective * (quantile(LEVEL, float("inf")) / quantile(LEVEL, degrees)) ** 2 if degrees else 1e-9
    return Estimate(share, *_wilson(share, size), len(values), effective)


def _wilson(share: float, size: float) -> tuple[float, float]:
    z2 = quantile(LEVEL, float("inf")) ** 2
    centre = (share + z2 / (2 * size)) / (1 + z2 / size)
    half = math.sqrt(z2 * (share * (1 - share) / size + z2 / (4 * size**2))) / (1 + z2 / size)
    # Of none and of all, one end is exactly 0 and 1, which rounding may miss.
    return (0.0 if share == 0 else max(centre - half, 0.0)), (1.0 if share == 1 else min(centre + half, 1.0))
