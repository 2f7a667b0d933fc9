"""Accepting some and leaving others: how often what is accepted is wrong, as more and more is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Floats, codes, quantile
from remedy.eval.stats.rates import Estimate


def risk_by_coverage(scores: Floats, wrong: Sequence[bool]) -> Floats:
    """The share that is wrong of the first 1, 2, ..., n when those with the highest scores are accepted first; of equals, what is
    expected if chance orders them."""
    values, errors = np.asarray(scores, dtype=float), np.asarray(wrong, dtype=float)
    order = np.argsort(-values, kind="stable")
    _, group = np.unique(-values[order], return_inverse=True)
    alike = np.bincount(group, weights=errors[order]) / np.bincount(group)
    found: Floats = np.cumsum(alike[group]) / np.arange(1, len(values) + 1)
    return found


def aurc(scores: Floats, wrong: Sequence[bool], clusters: Sequence[object] | None = None) -> Estimate:
    """The area under risk by coverage (Geifman and El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017): the
    mean of `risk_by_coverage`; the share of wrong ones for scores that say nothing. Its 95 % interval is over clusters, each left
    out in turn (the jackknife).

    Raises:
        ValueError: there are no outcomes, or not as many clusters.
    """
    values, errors = np.asarray(scores, dtype=float), np.asarray(wrong, dtype=float)
    if not len(values):
        raise ValueError("no outcomes")
    of = codes(clusters, len(values))
    area, count = float(risk_by_coverage(values, wrong).mean()), int(of.max()) + 1
    if count == 1:
        return Estimate(area, 0.0, 1.0, len(values), 1.0)
    without = np.array([risk_by_coverage(values[of != one], errors[of != one]).mean() for one in range(count)])
    half = quantile(LEVEL, count - 1) * math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0), len(values), float(count))
