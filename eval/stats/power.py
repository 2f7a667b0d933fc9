"""Power of a comparison, before anything is trained."""

from __future__ import annotations

import math

from remedy.eval.stats.clusters import LEVEL, quantile
from remedy.eval.stats.seeds import crossed

SPREAD = 0.1
"""Standard deviation of seeds that is assumed; four seeds of one DeltaNet recipe lay 9 points apart at 16 commands and 28 at 64."""
RATE = 0.5
"""Rate of the baseline that is assumed: at a half, differences are hardest to see."""
CORRELATION = 0.5
"""Correlation over programs of the two sides' outcomes that is assumed; 0 would be of models that have nothing in common."""


def smallest_difference(
    seeds: tuple[float, float],
    programs: int,
    rate: float = RATE,
    spread: float = SPREAD,
    level: float = LEVEL,
    power: float = 0.8,
) -> float:
    """The smallest difference that `compare` will call other than 0 with probability `power`, at most 1.

    `seeds`: of the baseline, of the treatment; with one on a side it is a difference of these runs, to which `spread`, the standard
    deviation of seeds' rates, does not matter. Infinitely many: a model that is not trained, which seeds do not change.
    """
    among = (2 * rate * (1 - rate) * (1 - CORRELATION) / programs, float("inf"))
    if min(seeds) < 2:
        variance, degrees = among
    else:
        variance, degrees = crossed([(spread**2 / count, count - 1) for count in seeds], among, 0.0)
    return min((quantile(level, degrees) + quantile(2 * (1 - power), degrees)) * math.sqrt(variance), 1.0)
