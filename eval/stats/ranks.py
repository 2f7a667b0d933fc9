"""Area under the ROC curve of a score, over clusters and within strata."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Floats, codes, design_effect, quantile
from remedy.eval.stats.rates import Estimate, rate


def auroc(
    scores: Floats, events: Sequence[bool], clusters: Sequence[object], strata: Sequence[object] | None = None
) -> Estimate | None:
    """The probability that an event has a higher score than what is no event, ties counting half, with its 95 % interval over
    clusters. `strata`: events are compared with what lies in their own stratum alone, and it is the mean over events; those that
    have nothing there are left out. None where nothing can be compared. `size`: events that are compared.

    The variance is that of the estimate's linear part in every cluster (Obuchowski, "Nonparametric analysis of clustered ROC curve
    data", Biometrics 53, 1997); the interval is Student's t on the scale of log-odds. Where every pair agrees, which shows no spread,
    it is Wilson's of as many outcomes as clusters that hold an event.

    Raises:
        ValueError: the sequences differ in length.
    """
    values, happened = np.asarray(scores, dtype=float), np.asarray(events, dtype=bool)
    of = codes(clusters, len(values))
    within = codes(strata, len(values)) if strata is not None else np.zeros(len(values), dtype=np.intp)
    if len(happened) != len(values):
        raise ValueError(f"{len(happened)} events of {len(values)} scores")
    placed, others = np.full(len(values), np.nan), np.zeros(len(values))
    order = np.argsort(within, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(within[order])) + 1):
        up, down = members[happened[members]], members[~happened[members]]
        if len(up) and len(down):
            placed[up] = _below(values[up], values[down]) / len(down)
            others[down] = (len(up) - _below(values[down], values[up]) - placed[up].sum()) / len(down)
    compared = ~np.isnan(placed)
    count = int(compared.sum())
    if not count:
        return None
    area = float(placed[compared].mean())
    part = np.where(compared, np.nan_to_num(placed) - area, others) / count
    sums = np.bincount(of, weights=part)
    holding = len(np.unique(of[compared]))
    involved = int(np.count_nonzero(np.bincount(of, weights=compared | (others != 0))))
    variance = float((sums**2).sum()) * involved / max(involved - 1, 1)
    if area in (0.0, 1.0):
        alike = rate([area == 1.0] * holding)
        return Estimate(area, alike.low, alike.high, count, float(holding))
    if holding < 2:
        return Estimate(area, 0.0, 1.0, count, 1.0)
    half = quantile(LEVEL, holding - 1) * math.sqrt(variance) / (area * (1 - area))
    centre = math.log(area / (1 - area))
    effective = count / design_effect(placed[compared], np.unique(of[compared], return_inverse=True)[1])
    return Estimate(area, _share(centre - half), _share(centre + half), count, effective)


def _below(values: Floats, others: Floats) -> Floats:
    """For each value how many of the others are lower; equals count half."""
    ordered = np.sort(others)
    found: Floats = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    return found


def _share(odds: float) -> float:
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0
