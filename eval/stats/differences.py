"""The difference of two recipes, or of two runs, on the same programs: one interval, and the p-value that belongs to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from remedy.eval.stats.clusters import LEVEL, Codes, Floats, codes, design_effect, quantile
from remedy.eval.stats.seeds import BAR, adjusted, crossed, program_variance, seed_variance, shared


class Difference(NamedTuple):
    """Treatment less baseline on the same examples. Rates are means over seeds and examples.

    `examples`: of each seed; a program that is drawn twice is two of them, in one of the `clusters`. `seeds`: of the baseline, of
    the treatment. `repeated`: whether the interval is for other seeds too, and not for these runs alone. `gained`, `lost`: programs
    wrong in the baseline and right in the treatment, and the reverse; with several seeds, the mean over pairs of runs.
    `correlation`: of the two sides' rates over programs; NaN where one does not vary. `centre`, `error` and `freedom`: of the t
    distribution that interval and p-value are of; the centre is the difference drawn towards 0.
    """

    examples: int
    clusters: int
    effective: float
    seeds: tuple[int, int]
    repeated: bool
    baseline: float
    treatment: float
    gained: float
    lost: float
    correlation: float
    centre: float
    error: float
    freedom: float

    @property
    def difference(self) -> float:
        return self.treatment - self.baseline

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Ends of the interval of 1 - `level`, cut to [-1, 1]."""
        half = quantile(level, self.freedom) * self.error
        return max(self.centre - half, -1.0), min(self.centre + half, 1.0)

    @property
    def p_value(self) -> float:
        """Two-sided; it is below a level where, and only where, the interval of that level leaves out 0."""
        ratio = abs(self.centre) / self.error
        tail = special.ndtr(-ratio) if math.isinf(self.freedom) else special.stdtr(self.freedom, -ratio)
        return float(min(2 * tail, 1.0))

    def smallest(self, level: float = LEVEL, power: float = 0.8) -> float:
        """The smallest difference that such an interval would have left 0 out for with probability `power`, at most 1."""
        drawn_in = abs(self.difference / self.centre) if abs(self.centre) > 1e-9 else 1.0
        return min(max(drawn_in, 1.0) * self._reach(level, power), 1.0)

    def times(self, distance: float, level: float = LEVEL, power: float = 0.8) -> float:
        """How many times the programs, and the seeds where it is `repeated`, would tell with probability `power` a centre where it
        is now from a value at this distance: variances go as one over their number."""
        return math.inf if distance < 1e-9 else (self._reach(level, power) / distance) ** 2

    def _reach(self, level: float, power: float) -> float:
        return (quantile(level, self.freedom) + quantile(2 * (1 - power), self.freedom)) * self.error


def compare(
    baseline: Floats, treatment: Floats, clusters: Sequence[object] | None = None, same_runs: bool = False
) -> Difference:
    """The difference of two sides' outcomes on the same programs, each (S, P), right ones 1; their seeds may differ in number.

    With one seed on a side it is a difference of these runs: Agresti and Min's adjusted interval for matched pairs ("Simple improved
    confidence intervals for comparing matched proportions", Statistics in Medicine 24, 2005), of as many programs as their clusters
    leave, and of the t distribution of these clusters: the normal's takes four of four for a difference (p = 0.009 where an exact
    test has 0.125). With more it is of the recipes: variances over seeds (as Welch has them, since seeds of two recipes share nothing
    but their number) and over programs, crossed as in `over_seeds`. `same_runs`: row s of both sides is one run under two
    conditions; then the seeds are paired.

    Where some runs reach `BAR` and others do not, recipes may solve a task with some seeds and not with others; a few that agree
    do not show it. There two seeds are imagined beside those of each side, one at the lowest rate of all runs and one at the highest
    (Agresti and Caffo, "Simple and effective confidence intervals for proportions and differences of proportions", The American
    Statistician 54, 2000). Measured in benchmarks/RESULTS.md.

    Raises:
        ValueError: the sides have no outcomes, or other numbers of programs (or, with `same_runs`, of seeds).
    """
    before, after = (np.atleast_2d(np.asarray(side, dtype=float)) for side in (baseline, treatment))
    if not before.size or before.shape[1] != after.shape[1] or (same_runs and before.shape != after.shape):
        raise ValueError("a comparison needs two sides with outcomes of the same, one or more, programs")
    of = codes(clusters, before.shape[1])
    repeated = min(len(before), len(after)) > 1
    changes = after.mean(axis=0) - before.mean(axis=0)
    if not repeated:
        centre, variance = adjusted(changes, of)
        degrees = int(of.max()) or 1e-9
    elif same_runs:
        centre, variance, degrees = _same_runs(before, after, of)
    else:
        centre, variance, degrees = _recipes(before, after, of)
    gained, lost = _moved(before, after, same_runs)
    return Difference(
        before.shape[1],
        int(of.max()) + 1,
        before.shape[1] / design_effect(changes, of),
        (len(before), len(after)),
        repeated,
        float(before.mean()),
        float(after.mean()),
        gained,
        lost,
        _correlation(before.mean(axis=0), after.mean(axis=0)),
        centre,
        math.sqrt(variance),
        degrees,
    )


def _recipes(before: Floats, after: Floats, of: Codes) -> tuple[float, float, float]:
    """Centre, variance and degrees of freedom where the seeds of the two sides have nothing to do with each other."""
    rates = [side.mean(axis=1) for side in (before, after)]
    imagined = _ends(rates)
    (first, first_variance), (second, second_variance) = (seed_variance(one, imagined) for one in rates)
    changes = after.mean(axis=0) - before.mean(axis=0)
    interaction = shared(before, of) + shared(after, of)
    variance, degrees = crossed([first_variance, second_variance], program_variance(changes, of), interaction)
    return second - first, variance, degrees


def _same_runs(before: Floats, after: Floats, of: Codes) -> tuple[float, float, float]:
    """The same where each run is on both sides: of its own differences. Imagined seeds change by as much as any did, half a one up
    and half a one down, and one not at all."""
    changes = after - before
    runs = changes.mean(axis=1)
    count, centre, variance = len(runs), float(runs.mean()), float(runs.var(ddof=1))
    if _ends([before.mean(axis=1), after.mean(axis=1)]):
        total = float((runs**2).sum() + (runs**2).max())
        count, centre = count + 2, float(runs.sum()) / (count + 2)
        variance = total / count - centre**2
    variance, degrees = crossed(
        [(variance / count, count - 1)], program_variance(changes.mean(axis=0), of), shared(changes, of)
    )
    return centre, variance, degrees


def _ends(rates: Sequence[Floats]) -> list[float]:
    """Rates of the seeds to imagine: the lowest and the highest of all where some runs reach the bar and others do not; else none."""
    every = np.concatenate(rates)
    return [float(every.min()), float(every.max())] if every.min() < BAR <= every.max() else []


def _moved(before: Floats, after: Floats, same_runs: bool) -> tuple[float, float]:
    if same_runs:
        return float(((1 - before) * after).mean(axis=0).sum()), float((before * (1 - after)).mean(axis=0).sum())
    first, second = before.mean(axis=0), after.mean(axis=0)
    return float(((1 - first) * second).sum()), float((first * (1 - second)).sum())


def _correlation(before: Floats, after: Floats) -> float:
    if before.std() < 1e-12 or after.std() < 1e-12:
        return math.nan
    return float(np.corrcoef(before, after)[0, 1])
