"""Rates of a recipe over its seeds, and trainings that solve the task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, quantile
from remedy.eval.stats.exact import clopper_pearson
from remedy.eval.stats.rates import Estimate, rate

BAR = 0.95
"""The default rate that the lower end of a run's interval must reach for the run to solve its task."""


class RecipeRate(NamedTuple):
    """The rate of a recipe over its seeds.

    A run solves the task if its interval's lower end reaches `solved_at`. `reachable`: all programs right would solve it.
    """

    estimate: Estimate
    runs: tuple[Estimate, ...]
    solved_at: float
    reachable: bool

    @property
    def points(self) -> tuple[float, ...]:
        return tuple(run.mean for run in self.runs)

    @property
    def solves(self) -> tuple[bool, ...]:
        return tuple(self.reachable and run.low >= self.solved_at for run in self.runs)

    @property
    def solved(self) -> int:
        return sum(self.solves)

    @property
    def share(self) -> tuple[float, float]:
        """The 95 % interval of the share of trainings that solve it."""
        return clopper_pearson(self.solved, len(self.runs))


class Spread(NamedTuple):
    """Centre of an interval; of its `parts` (standard error, degrees of freedom), the widest counts."""

    centre: float
    parts: tuple[tuple[float, float], ...]

    def interval(self, level: float = LEVEL, lowest: float = -1.0) -> tuple[float, float]:
        """Return the interval of confidence 1 - `level`, cut to [`lowest`, 1]."""
        half = max(quantile(level, degrees) * error for error, degrees in self.parts)
        return max(self.centre - half, lowest), min(self.centre + half, 1.0)

    def p_values(self) -> tuple[float, float]:
        """Return two-sided p-values of the centre being above and below 0, as the intervals."""
        up, down = (2 * max(_t_tail(sign * self.centre, *part) for part in self.parts) for sign in (-1, 1))
        return up, down


def _t_tail(value: float, error: float, degrees: float) -> float:
    from scipy import special  # here, since settings are read without it

    if not error:
        return float(value >= 0)
    return float(special.stdtr(degrees, value / error))


def over_seeds(outcomes: Floats, clusters: Sequence[object] | None = None, solved_at: float = BAR) -> RecipeRate:
    """Estimate a recipe's rate from its seeds' outcomes (S, P) on the same programs.

    The interval is for other seeds and programs: both variances less their interaction (Cameron, Gelbach and Miller,
    "Robust inference with multiway clustering", JBES 29, 2011), with Satterthwaite's degrees of freedom, at least as
    wide as over seeds alone. It assumes normal rates: where trainings either solve a task or fail, read `share`.

    Raises:
        ValueError: there are no outcomes.
    """
    values = np.asarray(outcomes, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError("no outcomes")
    cluster_of = codes(clusters, values.shape[1])
    runs = tuple(rate((row > 0.5).tolist(), clusters) for row in values)
    reachable = rate([True] * values.shape[1], clusters).low >= solved_at
    if len(values) == 1:
        return RecipeRate(runs[0], runs, solved_at, reachable)
    points = values.mean(axis=1)
    spread = between_and_among([points], values.mean(axis=0), cluster_of, shared(values, cluster_of))
    effective = values.shape[1] / design_effect(values.mean(axis=0), cluster_of)
    estimate = Estimate(float(points.mean()), *spread.interval(lowest=0.0), values.shape[1], effective)
    return RecipeRate(estimate, runs, solved_at, reachable)


def between_and_among(seeds: Sequence[Floats], programs: Floats, cluster_of: Codes, interaction: float) -> Spread:
    """Combine the spread over seeds with that over programs.

    `seeds`: rates (S,) of each side with several. `programs`: means (P,). `interaction`: the variance in both.
    """
    of_seeds = [(float(rates.var(ddof=1)) / len(rates), len(rates) - 1) for rates in seeds]
    seeds_alone = crossed(of_seeds, (0.0, math.inf), 0.0)
    both = crossed(of_seeds, (adjusted(programs, cluster_of)[1], max(int(cluster_of.max()), 1)), interaction)
    parts = tuple((math.sqrt(variance), degrees) for variance, degrees in (both, seeds_alone))
    return Spread(float(programs.mean()), parts)


def crossed(
    seeds: Sequence[tuple[float, float]], programs: tuple[float, float], interaction: float
) -> tuple[float, float]:
    """Add variances, each with its degrees of freedom; return both of the total (Satterthwaite)."""
    parts = [*seeds, programs]
    of_seeds = sum(variance for variance, _ in seeds)
    # An estimate of the interaction may exceed the variances that contain it.
    total = max(of_seeds + programs[0] - interaction, of_seeds, programs[0])
    weighted = sum(variance**2 / degrees for variance, degrees in parts)
    return total, total**2 / weighted if weighted else math.inf


def adjusted(values: Floats, cluster_of: Codes) -> tuple[float, float]:
    """Estimate the centre and variance of a mean over programs (P,) in [-1, 1].

    Half a program is added at 1, half at -1 and one at 0, as Agresti and Min add half an observation to each of four
    cells.
    """
    effective = len(values) / design_effect(values, cluster_of)
    total = effective + 2
    centre = effective * float(values.mean()) / total
    square = (effective * float((values**2).mean()) + 1) / total
    return centre, (square - centre**2) / total


def shared(values: Floats, cluster_of: Codes) -> float:
    """Estimate the variance of the interaction of seeds and programs; `values`: (S, P)."""
    seeds, programs = len(values), len(cluster_of)
    count = int(cluster_of.max()) + 1
    if min(seeds, count) < 2:
        return 0.0
    residuals = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    squares = sum(float((np.bincount(cluster_of, weights=row) ** 2).sum()) for row in residuals)
    factor: float = seeds / (seeds - 1) * count / (count - 1)
    return squares / (seeds * programs) ** 2 * factor
