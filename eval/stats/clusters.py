"""Clusters of dependent outcomes, and the variance of a mean over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
"""The cluster of each outcome, numbered from 0."""
LEVEL = 0.05
"""The default level: intervals of 95 %."""


def quantile(level: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t, or of the normal if `freedom` is infinite."""
    from scipy import special  # here, since settings are read without it

    tail = 1 - level / 2
    return float(special.ndtri(tail) if np.isinf(freedom) else special.stdtrit(freedom, tail))


def codes(clusters: Sequence[object] | None, count: int) -> Codes:
    """Assign each outcome the number of its cluster, by default its own.

    Raises:
        ValueError: names and outcomes differ in number.
    """
    if clusters is None:
        return np.arange(count)
    if len(clusters) != count:
        raise ValueError(f"{len(clusters)} clusters of {count} outcomes")
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.intp)


def variance_of_mean(values: Floats, cluster_of: Codes) -> float:
    """Estimate the variance of the mean of `values` (P,) over two or more clusters.

    The sandwich (Miller, "Adding error bars to evals", arXiv 2411.00640, section 2.2), times C / (C - 1).
    """
    sums = np.bincount(cluster_of, weights=values - values.mean())
    return float((sums**2).sum()) / len(values) ** 2 * len(sums) / (len(sums) - 1)


def design_effect(values: Floats, cluster_of: Codes) -> float:
    """Estimate by what factor, at least 1, clusters widen the variance of a mean.

    `values`: (P,). One cluster of equal values is added as a prior (Kish, 1965).
    """
    sizes = np.bincount(cluster_of)
    # The effect if all values of a cluster are equal, which is the most.
    if_equal = float((sizes**2).sum() / len(values))
    variance = float(values.var())
    if if_equal == 1 or len(sizes) == 1 or variance < 1e-12:
        return if_equal
    # Clusters with another value than the commonest are what informs the estimate. Equal shares may differ by rounding.
    _, value_of, counts = np.unique(values.round(9), return_inverse=True, return_counts=True)
    informative = min(
        len(np.unique(cluster_of[value_of != common])) for common in np.flatnonzero(counts == counts.max())
    )
    estimate = max(1.0, variance_of_mean(values, cluster_of) / (variance / (len(values) - 1)))
    # The prior, since with few uncommon values the plain estimate is too small, and intervals of rates near 1 too narrow.
    return (informative * estimate + if_equal) / (informative + 1)


def freedom(cluster_of: Codes) -> float:
    """Return a mean's degrees of freedom: clusters less one, infinite without clusters."""
    count = int(cluster_of.max()) + 1
    return float("inf") if count == len(cluster_of) else count - 1
