"""Two groups of different examples, compared within strata of what else tells them apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, quantile


class Stratified(NamedTuple):
    """Rates of exposed examples and of others, both weighted over the strata that hold both, and the 95 % interval of their
    difference. `size`: of the exposed and of the others, examples of these strata."""

    exposed: float
    others: float
    difference: float
    low: float
    high: float
    size: tuple[int, int]
    strata: int


def stratified(
    outcomes: Sequence[bool], exposed: Sequence[bool], strata: Sequence[Hashable], clusters: Sequence[Hashable]
) -> Stratified | None:
    """Mantel and Haenszel's difference of rates (Greenland and Robins, "Estimation of a common effect parameter from sparse follow-up
    data", Biometrics 41, 1985): that of a linear model with a level of its own for every stratum. None if no stratum holds both.

    Its variance is over clusters, each left out in turn (the jackknife, which sparse strata do not make too small). In one more stratum
    four examples are imagined, one of each kind, as Agresti and Caffo (2000) have it: else groups without an event would have
    an interval without width.

    Raises:
        ValueError: the sequences differ in length.
    """
    lengths = {len(outcomes), len(exposed), len(strata), len(clusters)}
    if len(lengths) > 1:
        raise ValueError(f"outcomes, exposed, strata and clusters differ in length: {sorted(lengths)}")
    happened, held, of = np.asarray(outcomes, dtype=float), np.asarray(exposed, dtype=float), codes(strata, len(strata))
    if not len(happened):
        return None
    count = int(of.max()) + 1
    both = (np.bincount(of, held, count) > 0) & (np.bincount(of, 1 - held, count) > 0)
    kept = both[of]
    if not kept.any():
        return None
    cells = _cells(
        happened[kept], held[kept], of[kept], codes([c for c, k in zip(clusters, kept) if k], int(kept.sum()))
    )
    rates = _weighted(cells[:, :-4].sum(axis=1))
    centre = _difference(cells.sum(axis=1))
    without = _difference(cells.sum(axis=1)[:, None] - cells)
    number = len(without)
    variance = (number - 1) / number * float(((without - without.mean()) ** 2).sum())
    half = quantile(LEVEL, number - 1) * math.sqrt(variance)
    size = int(held[kept].sum()), int((1 - held[kept]).sum())
    low, high = max(float(centre) - half, -1.0), min(float(centre) + half, 1.0)
    return Stratified(*rates, rates[0] - rates[1], low, high, size, int(both.sum()))


def _cells(happened: Floats, held: Floats, of: Codes, clusters: Codes) -> Floats:
    """Counts (kind, cluster, stratum) of exposed and other examples and of events among each, with the imagined ones at the end."""
    alone = clusters.max() + 1 + np.arange(4)
    held, happened = np.append(held, [1, 1, 0, 0]), np.append(happened, [1, 0, 1, 0])
    of, clusters = np.append(of, np.full(4, of.max() + 1)), np.append(clusters, alone)
    found = np.zeros((4, int(clusters.max()) + 1, int(of.max()) + 1))
    for kind, weights in enumerate((held, 1 - held, held * happened, (1 - held) * happened)):
        np.add.at(found[kind], (clusters, of), weights)
    return found


def _difference(cells: Floats) -> Floats:
    """Mantel and Haenszel's difference of counts (kind, ..., stratum)."""
    exposed, others, first, second = cells
    size = np.maximum(exposed + others, 1)
    found: Floats = ((first * others - second * exposed) / size).sum(axis=-1) / (exposed * others / size).sum(axis=-1)
    return found


def _weighted(cells: Floats) -> tuple[float, float]:
    """Both groups' rates at the weights of the difference."""
    exposed, others, first, second = cells[:, cells[0] * cells[1] > 0]
    weights = exposed * others / (exposed + others)
    weights = weights / weights.sum()
    return float((weights * first / exposed).sum()), float((weights * second / others).sum())
