"""Power of a comparison, before anything is trained: the smallest difference, and how many seeds and programs a word takes."""

from __future__ import annotations

import math

from remedy.eval.stats.clusters import LEVEL, quantile
from remedy.eval.stats.differences import too_few
from remedy.eval.stats.exact import clopper_pearson, power_of_solved
from remedy.eval.stats.rates import rate as rate_of
from remedy.eval.stats.seeds import crossed
from remedy.eval.stats.words import Question, least_p

SPREAD = 0.1
"""Standard deviation of seeds that is assumed; four seeds of one DeltaNet recipe lay 9 points apart at 16 commands and 28 at 64."""
RATE = 0.5
"""Rate of the baseline that is assumed: at a half, differences are hardest to see."""
POWER = 0.8
CORRELATION = 0.5
"""Correlation over programs of the two sides' outcomes that is assumed; 0 would be of models that have nothing in common."""


def smallest_difference(
    seeds: tuple[float, float],
    programs: int,
    rate: float = RATE,
    spread: float = SPREAD,
    level: float = LEVEL,
) -> float:
    """The smallest difference that `compare` will call other than 0 with probability `POWER`, at most 1.

    `seeds`: of the baseline, of the treatment; with one on a side it is a difference of these runs, to which `spread`, the standard
    deviation of seeds' rates, does not matter. Infinitely many: a model that is not trained, which seeds do not change.
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
    """The difference that so many seeds and programs can show, before a training and after it alike. `seeds`: of the baseline, of the
    treatment, infinite of a model that is not trained; `matched`: each run has one on the other side."""
    first, second = (1 if math.isinf(count) else int(count) for count in seeds)
    whole = first, second
    points_seen = f"{100 * smallest_difference(seeds, clusters, rate, spread, level):.0f} points"
    if max(whole) < 2 or (min(whole) < 2 and not matched):
        return points_seen
    asks = asks or ("solved" if too_few(whole, matched) else "rates")
    if asks == "solved" and not isinstance(solved_at, str) and rate_of([True] * clusters).low < solved_at:
        return f"nothing: {clusters} programs cannot show {solved_at:.0%}, even if all are right; {programs_for(solved_at)} can"
    if least_p(asks, whole, matched) >= level:
        return "nothing: too few seeds"
    if asks == "rates":
        return points_seen
    if matched:
        return "trainings that solve it on one side alone"
    return f"0 against 90 % of trainings that solve it (power {power_of_solved((0.0, 0.9), whole, level):.0%})"


def programs_for(solved_at: float) -> int:
    """The programs that show a rate of `solved_at` if all are right."""
    return math.ceil(
        solved_at / (1 - solved_at) * quantile(LEVEL, math.inf) ** 2
    )  # Wilson's lower end of n of n: n / (n + q^2)


def seeds_for_fixed(level: float = LEVEL) -> int:
    """The seeds that must solve a task, if all do, for more than half of all trainings to, with confidence 1 - `level`."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)
