"""Bound on how far a trace is believed at a stated risk: a threshold that holds whatever the hazards are worth.

Conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", ICLR 2024, theorem 1). Of a trace the
frames up to k are believed while P, the probability that all of them are right as the hazards have it, is above a threshold. The loss
of a threshold on a cluster of traces is the share of them in which a believed frame is wrong: it is at most 1, and falls as the
threshold rises. Clusters are exchangeable where traces are not (executions of one function), so the loss is of clusters, each counted
once (as Dunn, Wasserman and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models", JASA 118, 2023, have it).

The claim: of a trace drawn at random from a cluster drawn at random like those of the calibration, all believed frames are right with
probability 1 - risk or more. The probability is over traces and over the calibration's clusters: it says nothing of one trace by
itself, and nothing of programs that are drawn otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from remedy.eval.stats.clusters import LEVEL


class Bound(NamedTuple):
    """Data from which a threshold is chosen. Of each trace with an error: `scores`, what is highest for a trace that is believed too
    far; and `weights`, what part of its cluster it is. `clusters`: how many there are, with those that have no error."""

    scores: tuple[float, ...]
    weights: tuple[float, ...]
    clusters: int

    def threshold(self, risk: float) -> float:
        """The lowest value that scores of what is believed have to be above; infinite where there are too few clusters to believe
        anything: at least 1 / risk - 1 are needed."""
        allowed = risk * (self.clusters + 1) - 1
        if allowed < 0:
            return math.inf
        order = np.argsort(self.scores)[::-1]
        scores = np.asarray(self.scores, dtype=float)[order]
        # What is lost if all scores from the highest down to here were above the threshold.
        lost = np.cumsum(np.asarray(self.weights, dtype=float)[order])
        over = np.flatnonzero(lost > allowed + 1e-9)
        return float(scores[over[0]]) if len(over) else -math.inf

    def spread(self, risk: float) -> tuple[float, float]:
        """Between which shares of traces 95 of 100 calibrations on as many programs would keep right, at this risk: the claim is of
        their mean. Where each program has one trace, and no two score alike, they follow a beta distribution (Vovk, "Conditional
        validity of inductive conformal predictors", ACML 2012); nothing of it is left where nothing is believed."""
        wrong = math.floor(risk * (self.clusters + 1) + 1e-9)
        if not wrong:
            return 1.0, 1.0
        low, high = (special.betaincinv(self.clusters + 1 - wrong, wrong, tail) for tail in (LEVEL / 2, 1 - LEVEL / 2))
        return float(low), float(high)


def bound(scores: Sequence[float | None], clusters: Sequence[object]) -> Bound:
    """From the score of every trace (None: it has no error) and its cluster."""
    sizes: dict[object, int] = {}
    for name in clusters:
        sizes[name] = sizes.get(name, 0) + 1
    found = [(score, 1 / sizes[name]) for score, name in zip(scores, clusters, strict=True) if score is not None]
    return Bound(tuple(float(score) for score, _ in found), tuple(weight for _, weight in found), len(sizes))
