"""Scores that rank: area under the ROC curve, and how often what is accepted first is wrong."""

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
