"""One recipe trained with several seeds: its rate, how far seeds lie apart, and how many solve the task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, quantile
from remedy.eval.stats.exact import clopper_pearson
from remedy.eval.stats.rates import Estimate, rate

BAR = 0.95
"""A run whose rate of right answers is this with confidence solves its task, unless a comparison declares another."""


class Repeated(NamedTuple):
    """A recipe over its seeds. `estimate`: mean over seeds and programs; `runs`: each seed's rate with its own interval; `spread`: the
    standard deviation of these rates, NaN of one. A run solves the task if the lower end of its interval reaches `solved_at`;
    `reachable`: whether that of a run that is always right on these programs does."""

    estimate: Estimate
    runs: tuple[Estimate, ...]
    spread: float
    solved_at: float
    reachable: bool

    @property
    def points(self) -> tuple[float, ...]:
        """Each seed's rate."""
        return tuple(run.mean for run in self.runs)

    @property
    def solves(self) -> tuple[bool, ...]:
        """Say if each run solves the task: none where one that is always right would not be shown to."""
        return tuple(self.reachable and run.low >= self.solved_at for run in self.runs)

    @property
    def solved(self) -> int:
        """Count the runs that do."""
        return sum(self.solves)

    @property
    def share(self) -> tuple[float, float]:
        """The 95 % interval of the share of all trainings that do (Clopper and Pearson)."""
        return clopper_pearson(self.solved, len(self.runs))


class Spread(NamedTuple):
    """Centre of an interval, and its standard errors with their degrees of freedom. The interval reaches as far as the widest: one
    over seeds and programs is never narrower than over seeds alone."""

    centre: float
    parts: tuple[tuple[float, float], ...]

    def half(self, level: float = LEVEL) -> float:
        """Give the half width of the interval of confidence 1 - `level`."""
        return max(quantile(level, degrees) * error for error, degrees in self.parts)

    def p_values(self) -> tuple[float, float]:
        """Give the p-values of the centre being above 0, and below it, both two-sided: below a level where the interval lies on that
        side of 0."""
        up, down = (2 * max(_t_tail(sign * self.centre, *part) for part in self.parts) for sign in (-1, 1))
        return up, down


def _t_tail(value: float, error: float, degrees: float) -> float:
    if not error:
        return float(value >= 0)
    ratio = value / error
    return float(special.ndtr(ratio) if math.isinf(degrees) else special.stdtr(degrees, ratio))


def over_seeds(outcomes: Floats, clusters: Sequence[object] | None = None, solved_at: float = BAR) -> Repeated:
    """A recipe from its seeds' outcomes on the same programs, (S, P), right ones 1.

    The interval of the mean is for other seeds and other programs: the two variances added less their interaction, counted in
    both (Cameron, Gelbach and Miller, "Robust inference with multiway clustering", JBES 29, 2011), with Satterthwaite's degrees of
    freedom, and never narrower than over seeds alone. It takes seeds' rates to vary as normal numbers do. What no seed has shown is not
    in it: where trainings solve a task or fail, read `share`. Of one seed it is the interval of that run.

    Raises:
        ValueError: there are no outcomes.
    """
    values = np.asarray(outcomes, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError("no outcomes")
    of = codes(clusters, values.shape[1])
    runs = tuple(rate((row > 0.5).tolist(), clusters) for row in values)
    reachable = rate([True] * values.shape[1], clusters).low >= solved_at
    if len(values) == 1:
        return Repeated(runs[0], runs, math.nan, solved_at, reachable)
    points = values.mean(axis=1)
    spread = between_and_among([points], values.mean(axis=0), of, shared(values, of))
    centre, half = float(points.mean()), spread.half()
    effective = values.shape[1] / design_effect(values.mean(axis=0), of)
    estimate = Estimate(centre, max(centre - half, 0.0), min(centre + half, 1.0), values.shape[1], effective)
    return Repeated(estimate, runs, float(points.std(ddof=1)), solved_at, reachable)


def between_and_among(seeds: Sequence[Floats], programs: Floats, of: Codes, interaction: float) -> Spread:
    """The spread over seeds and programs. `seeds`: rates of the seeds (S,) of each side whose seeds vary; `programs`: what each program
    has on average (P,); `interaction`: what both variances hold. Centred at the mean over programs."""
    between = [(float(rates.var(ddof=1)) / len(rates), len(rates) - 1) for rates in seeds]
    alone = crossed(between, (0.0, math.inf), 0.0)
    both = crossed(between, (adjusted(programs, of)[1], max(int(of.max()), 1)), interaction)
    parts = tuple((math.sqrt(variance), degrees) for variance, degrees in (both, alone))
    return Spread(float(programs.mean()), parts)


def crossed(
    seeds: Sequence[tuple[float, float]], programs: tuple[float, float], interaction: float
) -> tuple[float, float]:
    """A variance over seeds and programs, and its degrees of freedom. `seeds`, `programs`: variances with theirs."""
    parts = [*seeds, programs]
    between = sum(variance for variance, _ in seeds)
    total = max(between + programs[0] - interaction, between, programs[0])
    spread = sum(variance**2 / degrees for variance, degrees in parts)
    return total, total**2 / spread if spread else math.inf


def adjusted(values: Floats, of: Codes) -> tuple[float, float]:
    """Centre and variance of the mean over programs (P,) of values in [-1, 1] after two more programs: half a one at 1, half a one
    at -1, one at 0. For differences of two runs that is the half observation that Agresti and Min add to each of four cells."""
    effective = len(values) / design_effect(values, of)
    total = effective + 2
    centre = effective * float(values.mean()) / total
    second = (effective * float((values**2).mean()) + 1) / total
    return centre, (second - centre**2) / total


def shared(values: Floats, of: Codes) -> float:
    """Estimate the variance of the interaction of seeds and programs, from values (S, P); both of their variances hold it."""
    seeds, programs = len(values), len(of)
    count = int(of.max()) + 1
    if min(seeds, count) < 2:
        return 0.0
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    squares = sum(float((np.bincount(of, weights=row) ** 2).sum()) for row in rest)
    factor: float = seeds / (seeds - 1) * count / (count - 1)
    return squares / (seeds * programs) ** 2 * factor
