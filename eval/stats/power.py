"""Power before training: smallest differences, and the seeds and programs needed."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache

import numpy as np

from remedy.eval.stats.clusters import LEVEL, quantile
from remedy.eval.stats.differences import RUNS_ON_BOTH, SEEDS_A_SIDE, Difference, too_few
from remedy.eval.stats.exact import clopper_pearson, power_of_solved
from remedy.eval.stats.rates import rate as rate_of
from remedy.eval.stats.seeds import crossed
from remedy.eval.stats.words import Question, least_p

SPREAD = 0.1
"""Assumed standard deviation of seeds' rates."""
SPREADS = {"answer": (SPREAD, 0.04, 0.34), "action": (0.06, 0.03, 0.16)} | dict.fromkeys(
    ("state", "changed_state"), (0.04, 0.02, 0.14)
)
"""By metric: the same, and its quartiles over conditions in `results/study` with three seeds or more and rates of 10 to
95 %; medians are 0.12, 0.06 and 0.04."""
RATE = 0.5
"""Assumed rate of the baseline: at a half, differences are hardest to see."""
POWER = 0.8
MOST_SEEDS = 30
"""The most seeds a side that are proposed."""
CORRELATION = 0.5
"""Assumed correlation of the sides' outcomes over programs; 0: the models have nothing in common."""
WITHIN = 0.1
"""Assumed correlation of a program's states or actions; medians in `results/study` are 0.06 and 0.12 of real programs, 0.14
of strings, and below 0 of permutations."""


def independent(units: float, clusters: int, within: float = WITHIN) -> float:
    """Return the effective number of outcomes in clusters (Kish, "Survey Sampling", 1965).

    `within`: the correlation of two outcomes of a cluster.
    """
    return units / (1 + (units / clusters - 1) * within)


@cache
def separating(seeds: tuple[float, float]) -> float:
    """Return the distance at which all of one recipe's seeds beat the other's.

    It is in standard deviations of seeds, and holds with probability `POWER`.
    """
    generator = np.random.default_rng(0)  # a plan made twice is the same
    noise = [generator.normal(size=(4000, 1 if math.isinf(count) else int(count))) for count in seeds]
    before, after = (side * (not math.isinf(count)) for side, count in zip(noise, seeds))
    return float(np.quantile(before.max(axis=1) - after.min(axis=1), POWER))


def smallest_difference(
    seeds: tuple[float, float],
    programs: float,
    rate: float = RATE,
    spread: float = SPREAD,
    level: float = LEVEL,
) -> float:
    """Estimate the smallest difference that `compare` shows with probability `POWER`.

    `seeds`: of baseline and treatment; infinite for an untrained model. `spread`: their standard deviation, not used if
    a side has one seed. `programs`: independent outcomes per seed.
    """
    over_programs = (2 * rate * (1 - rate) * (1 - CORRELATION) / programs, float("inf"))
    if min(seeds) < 2:
        variance, degrees = over_programs
    else:
        variance, degrees = crossed([(spread**2 / count, count - 1) for count in seeds], over_programs, 0.0)
    needed = (quantile(level, degrees) + quantile(2 * (1 - POWER), degrees)) * math.sqrt(variance)
    if min(seeds) >= 2 and 2 * least_p("rates", _counts(seeds), math.inf in seeds) >= level:
        # No other outcome of so few seeds has a p-value below the level; and the difference is drawn in first.
        separation = separating(seeds) * math.hypot(spread, math.sqrt(over_programs[0] / 2))
        needed = max(
            needed,
            separation + quantile(LEVEL, math.inf) * (math.sqrt(variance) - math.sqrt(variance - over_programs[0])),
        )
    return min(needed, 1.0)


def seeds_to_show(difference: Difference, spread: float, level: float = LEVEL) -> tuple[int, bool]:
    """Return the fewest seeds a side, more than there are, that would show a difference; or `MOST_SEEDS` and False.

    `spread`: the standard deviation of seeds' rates.
    """
    rate, matched = (difference.baseline + difference.treatment) / 2, difference.matched
    fewest = RUNS_ON_BOTH if matched else SEEDS_A_SIDE
    for count in range(max(fewest, *(seeds + 1 for seeds in difference.seeds)), MOST_SEEDS + 1):
        before, after = (math.inf if seeds == 1 else count for seeds in difference.seeds)
        smallest = smallest_difference((before, after), difference.clusters, rate, spread, level)
        if least_p("rates", _counts((before, after)), matched) < level and smallest <= abs(difference.mean):
            return count, True
    return MOST_SEEDS, False


def decidable(
    asks: Question | None,
    solved_at: float | str,
    seeds: tuple[float, float],
    matched: bool,
    clusters: int,
    level: float = LEVEL,
    rate: float = RATE,
    spread: float = SPREAD,
    outcomes: float | None = None,
) -> str:
    """Write what these seeds and programs can show.

    `outcomes`: independent ones, by default one per cluster.
    """
    trainings = _counts(seeds)
    difference = f"{100 * smallest_difference(seeds, outcomes or clusters, rate, spread, level):.0f} points"
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
    needs = (
        "" if isinstance(solved_at, str) or outcomes else f"with {right_for(solved_at, clusters)} of {clusters} right, "
    )
    return (
        f"0 against 90 % of trainings that solve it ({needs}power {power_of_solved((0.0, 0.9), trainings, level):.0%})"
    )


def _counts(seeds: tuple[float, float]) -> tuple[int, int]:
    before, after = (1 if math.isinf(count) else int(count) for count in seeds)
    return before, after


def right_for(solved_at: float, programs: int) -> int:
    """Return how many programs must be right to show a rate of `solved_at`."""

    def low(right: int) -> float:
        return rate_of([True] * right + [False] * (programs - right)).low

    return bisect_left(range(programs + 1), solved_at, key=low)


def programs_for(solved_at: float) -> int:
    """Return how many programs show a rate of `solved_at` if all are right."""
    # Wilson's lower end of n right of n is n / (n + q^2).
    return math.ceil(solved_at / (1 - solved_at) * quantile(LEVEL, math.inf) ** 2)


def seeds_for_fixed(level: float = LEVEL) -> int:
    """Return how many seeds, all solving a task, show that most trainings do."""
    return next(count for count in range(1, 100) if clopper_pearson(count, count, level)[0] > 0.5)
