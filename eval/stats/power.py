"""Power before training: the smallest difference shown, and the seeds and programs that words take."""

from __future__ import annotations

import math

from remedy.eval.stats.clusters import LEVEL, quantile
from remedy.eval.stats.differences import too_few
from remedy.eval.stats.exact import clopper_pearson, power_of_solved
from remedy.eval.stats.rates import rate as rate_of
from remedy.eval.stats.seeds import crossed
from remedy.eval.stats.words import Question, least_p

SPREAD = 0.1
"""Assumed standard deviation of seeds: four seeds of one DeltaNet recipe lay 9 points apart at 16 commands, and 28 at 64."""
RATE = 0.5
"""Assumed rate of the baseline: at a half, differences are hardest to see."""
POWER = 0.8
CORRELATION = 0.5
"""Assumed correlation of the two sides' outcomes over programs; 0 would be of models that have nothing in common."""


def smallest_difference(
    seeds: tuple[float, float],
    programs: int,
    rate: float = RATE,
    spread: float = SPREAD,
    level: float = LEVEL,
) -> float:
    """Estimate the smallest difference that `compare` tells from 0 with probability `POWER`, at most 1.

    `seeds`: of baseline and treatment; infinite for an untrained model. With one seed on a side it is of these runs,
    and `spread`, the standard deviation over seeds, does not matter.
    """
    among = (2 * rate * (1 - rate) * (1 - CORRELATION) / programs, float("inf"))
    if min(seeds) < 2:
        variance, degrees = among
    else:
        variance, degrees = crossed([(spread**2 / count, count - 1) for count in seeds], among, 0.0)
    return min((quantile(level, degrees) + quantile(2 * (1 - POWER), degrees)) * math.sqrt(variance), 1.0)


def decidable(
    asks: Question | None,
    solved_at: float | str,
    seeds: tuple[float, float],
    matched: bool,
    clusters: int,
    level: float = LEVEL,
    rate: float = RATE,
    spread: float = SPREAD,
) -> str:
    """Write the difference that so many seeds and programs can show."""
    before, after = (1 if math.isinf(count) else int(count) for count in seeds)
    trainings = before, after
    difference = f"{100 * smallest_difference(seeds, clusters, rate, spread, level):.0f} points"
    if max(trainings) < 2 or (min(trainings) < 2 and not matched):
        return difference
    asks = asks or ("solved" if too_few(trainings, matched) else "rates")
    if asks == "solved" and not isinstance(solved_at, str) and rate_of([True] * clusters).low < solved_at:
        return f"nothing: {clusters} programs cannot show {solved_at:.0%}, even if all are right; {programs_for(solved_at)} can"
    if least_p(asks, trainings, matched) >= level:
        return "nothing: too few seeds"
    if asks == "rates":
        return difference
    if matched:
        return "trainings that solve it on one side alone"
    return f"0 against 90 % of trainings that solve it (power {power_of_solved((0.0, 0.9), trainings, level):.0%})"


def programs_for(solved_at: float) -> int:
    """Return how many programs show a rate of `solved_at` if all are right."""
    # Wilson's lower end of n right of n is n / (n + q^2).
    return math.ceil(solved_at / (1 - solved_at) * quantile(LEVEL, math.inf) ** 2)


def seeds_for_fixed(level: float = LEVEL) -> int:
    """Return how many seeds, all solving a task, show that most trainings do."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)
