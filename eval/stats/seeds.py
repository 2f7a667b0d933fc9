"""One recipe trained with several seeds: its rate, how far seeds lie apart, and how many solve the task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, quantile
from remedy.eval.stats.rates import Estimate, rate

BAR = 0.95
"""A run whose rate of right answers is this with confidence solves its task."""


class Repeated(NamedTuple):
    """A recipe over its seeds. `estimate`: mean over seeds and programs; `points`: each seed's rate; `spread`: their standard
    deviation, NaN of one; `solved`: of them reach `BAR` with the lower end of their own interval, and `solved_low` to
    `solved_high` is the share of all trainings that do (Clopper and Pearson)."""

    estimate: Estimate
    points: tuple[float, ...]
    spread: float
    solved: int
    solved_low: float
    solved_high: float


def clopper_pearson(count: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval of a rate (Clopper and Pearson, 1934): 0 to 1 of nothing."""
    if not of:
        return 0.0, 1.0
    low = special.betaincinv(count, of - count + 1, LEVEL / 2) if count else 0.0
    high = special.betaincinv(count + 1, of - count, 1 - LEVEL / 2) if count < of else 1.0
    return float(low), float(high)


def over_seeds(outcomes: Floats, clusters: Sequence[object] | None = None) -> Repeated:
    """A recipe from its seeds' outcomes on the same programs, (S, P), right ones 1.

    The interval of the mean is for other seeds and other programs: the two variances added less their interaction, counted in
    both (Cameron, Gelbach and Miller, "Robust inference with multiway clustering", JBES 29, 2011), with Satterthwaite's degrees of
    freedom. Recipes that reach `BAR` often do so with some seeds and stay at chance with others, which a few seeds that agree do
    not show; so where one reaches it, two seeds are imagined beside them, at 0 and at 1: the one success and one failure that Agresti
    and Caffo (2000) add to each sample (Agresti and Coull, 1998, add two of each to a single one).
    Of one seed it is the interval of that run.

    Raises:
        ValueError: there are no outcomes.
    """
    values = np.asarray(outcomes, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError("no outcomes")
    of = codes(clusters, values.shape[1])
    runs = [rate((row > 0.5).tolist(), clusters) for row in values]
    points = values.mean(axis=1)
    solved = sum(run.low >= BAR for run in runs)
    if len(values) == 1:
        return Repeated(runs[0], (runs[0].mean,), math.nan, solved, *clopper_pearson(solved, 1))
    centre, between = seed_variance(points, [0.0, 1.0] if points.max() >= BAR else [])
    variance, degrees = crossed([between], program_variance(values.mean(axis=0), of), shared(values, of))
    # Few seeds that agree by chance make programs seem all there is: never narrower than over seeds alone.
    half = max(quantile(LEVEL, degrees) * math.sqrt(variance), quantile(LEVEL, between[1]) * math.sqrt(between[0]))
    effective = values.shape[1] / design_effect(values.mean(axis=0), of)
    estimate = Estimate(
        float(points.mean()), max(centre - half, 0.0), min(centre + half, 1.0), values.shape[1], effective
    )
    return Repeated(
        estimate, tuple(points.tolist()), float(points.std(ddof=1)), solved, *clopper_pearson(solved, len(values))
    )


def seed_variance(points: Floats, imagined: Sequence[float]) -> tuple[float, tuple[float, int]]:
    """Mean of seeds' rates with the imagined ones, and its variance over seeds with its degrees of freedom: unbiased without
    imagined seeds, and as Agresti and Caffo have it with them."""
    every = np.append(points, imagined)
    count = len(every)
    return float(every.mean()), (float(every.var(ddof=0 if imagined else 1)) / count, count - 1)


def crossed(
    seeds: Sequence[tuple[float, float]], programs: tuple[float, float], interaction: float
) -> tuple[float, float]:
    """A variance over seeds and programs, and its degrees of freedom. `seeds`, `programs`: variances with theirs."""
    parts = [*seeds, programs]
    between = sum(variance for variance, _ in seeds)
    total = max(between + programs[0] - interaction, between, programs[0])
    spread = sum(variance**2 / degrees for variance, degrees in parts)
    return total, total**2 / spread if spread else math.inf


def program_variance(values: Floats, of: Codes) -> tuple[float, float]:
    """Variance of the mean over programs (P,) of values in [-1, 1], with its degrees of freedom, as `adjusted` has it."""
    return adjusted(values, of)[1], max(int(of.max()), 1)


def adjusted(values: Floats, of: Codes) -> tuple[float, float]:
    """Centre and variance of the mean over programs (P,) of values in [-1, 1] after two more programs: half a one at 1, half a one
    at -1, one at 0. For differences of two runs that is the half observation that Agresti and Min add to each of four cells."""
    effective = len(values) / design_effect(values, of)
    total = effective + 2
    centre = effective * float(values.mean()) / total
    second = (effective * float((values**2).mean()) + 1) / total
    return centre, (second - centre**2) / total


def shared(values: Floats, of: Codes) -> float:
    """What the variances over seeds and over programs both hold: that of their interaction, from values (S, P)."""
    seeds, programs = len(values), len(of)
    count = int(of.max()) + 1
    if min(seeds, count) < 2:
        return 0.0
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    squares = sum(float((np.bincount(of, weights=row) ** 2).sum()) for row in rest)
    factor: float = seeds / (seeds - 1) * count / (count - 1)
    return squares / (seeds * programs) ** 2 * factor
