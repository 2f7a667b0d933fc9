"""Outcomes that are drawn together: the variance of a mean over clusters, and how many independent outcomes say as much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
LEVEL = 0.05
"""Intervals are of 95 % unless another level is asked for."""


def quantile(level: float, freedom: float) -> float:
    """Give the standard errors that an interval reaches to each side: of Student's t, or of the normal for infinite `freedom`."""
    tail = 1 - level / 2
    return float(special.ndtri(tail) if np.isinf(freedom) else special.stdtrit(freedom, tail))


def codes(clusters: Sequence[object] | None, count: int) -> Codes:
    """The cluster of each of `count` outcomes as a number from 0; without clusters, one each.

    Raises:
        ValueError: there are not as many names as outcomes.
    """
    if clusters is None:
        return np.arange(count)
    if len(clusters) != count:
        raise ValueError(f"{len(clusters)} clusters of {count} outcomes")
    places: dict[object, int] = {}
    return np.array([places.setdefault(name, len(places)) for name in clusters], dtype=np.intp)


def variance_of_mean(values: Floats, of: Codes) -> float:
    """Variance of the mean of `values` (P,) if clusters are drawn, not values (the sandwich; Miller, "Adding error bars to evals",
    arXiv 2411.00640, section 2.2), with the factor C / (C - 1). With one value a cluster: s^2 / P. Needs two clusters."""
    sums = np.bincount(of, weights=values - values.mean())
    return float((sums**2).sum()) / len(values) ** 2 * len(sums) / (len(sums) - 1)


def design_effect(values: Floats, of: Codes) -> float:
    """By how much clusters widen the variance of the mean of `values` (P,), 1 at least.

    It is seen in the clusters that hold another value than the commonest. Where these are few it is mostly underestimated, so one
    more is added whose values are all alike (Kish, 1965): with it intervals cover rates near 1 as they should.
    """
    sizes = np.bincount(of)
    alike = float((sizes**2).sum() / len(values))
    spread = float(values.var())
    if alike == 1 or len(sizes) == 1 or spread < 1e-12:
        return alike
    _, places, counts = np.unique(values.round(9), return_inverse=True, return_counts=True)
    telling = min(len(np.unique(of[places != place])) for place in np.flatnonzero(counts == counts.max()))
    seen = max(1.0, variance_of_mean(values, of) / (spread / (len(values) - 1)))
    return (telling * seen + alike) / (telling + 1)


def freedom(of: Codes) -> float:
    """Degrees of freedom of a mean over clusters: one less than there are; infinite without clusters, as the score intervals of
    single outcomes have it."""
    count = int(of.max()) + 1
    return float("inf") if count == len(of) else count - 1
