"""The difference of two recipes, or of two runs, on the same programs, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Floats, codes, quantile
from remedy.eval.stats.exact import Counts, Test, permutation, sign_flips
from remedy.eval.stats.seeds import Spread, adjusted, between_and_among, shared

SEEDS_A_SIDE, RUNS_ON_BOTH = 5, 6
"""From so many seeds a side, and from so many runs that are on both sides, a test of rates can reach 5 %."""


def too_few(seeds: tuple[int, int], matched: bool) -> bool:
    """Say if so many seeds, of the baseline and of the treatment, are too few for a test of rates, by choice: four a side could reach
    3 %. `matched`: each run has one on the other side."""
    return max(seeds) < RUNS_ON_BOTH if matched else min(seeds) < SEEDS_A_SIDE


class Difference(NamedTuple):
    """Treatment less baseline on the same examples. Rates are means over seeds and examples.

    `examples`: of each seed; a program that is drawn twice is two of them, in one of the `clusters`. `seeds`: of the baseline, of
    the treatment. `repeated`: whether it is a difference of recipes, for other seeds too, and not of these runs alone. `same_runs`:
    whether each run is on both sides. `gained`, `lost`: programs wrong in the baseline and right in the treatment, and the reverse;
    with several seeds, the mean over pairs of runs.
    `recipes`: the spread over seeds and programs, None if it is not `repeated`; `runs`: that of these runs over programs alone, whose
    centre is drawn towards 0. `right`: right answers of each seed of the baseline and of the treatment; `drawn_in`: so many of them is
    the difference drawn towards 0 before it is tested.
    """

    examples: int
    clusters: int
    seeds: tuple[int, int]
    repeated: bool
    same_runs: bool
    baseline: float
    treatment: float
    gained: float
    lost: float
    recipes: Spread | None
    runs: Spread
    right: tuple[Counts, Counts]
    drawn_in: int

    @property
    def difference(self) -> float:
        return self.treatment - self.baseline

    @property
    def matched(self) -> bool:
        """Say if each run has one on the other side: itself, or a single model."""
        return self.same_runs or min(self.seeds) == 1

    def test(self, less: int = 0) -> Test:
        """Test exactly if the treatment's rates are the baseline's less so many right answers: by permutation of seeds, or by sign of
        those that are matched."""
        before, after = self.right
        up, down = (
            sign_flips(after + move - before) if self.matched else permutation(before, after + move)
            for move in (less - self.drawn_in, less + self.drawn_in)
        )
        return Test(up.up, down.down)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Ends of the interval of 1 - `level`, cut to [-1, 1]: over seeds and programs of recipes, over programs of runs."""
        return _ends(self.recipes or self.runs, level)

    def interval_of_runs(self, level: float = LEVEL) -> tuple[float, float]:
        """The same for these runs and other programs."""
        return _ends(self.runs, level)

    @property
    def p_of_runs(self) -> float:
        """Two-sided, for these runs and other programs; below a level where, and only where, that interval leaves out 0."""
        return min(1.0, *self.runs.p_values())


def compare(
    baseline: Floats,
    treatment: Floats,
    clusters: Sequence[object] | None = None,
    same_runs: bool = False,
    standing: tuple[bool, bool] = (False, False),
) -> Difference:
    """The difference of two sides' outcomes on the same programs, each (S, P), right ones 1; their seeds may differ in number.

    Of these runs it is Agresti and Min's adjusted interval for matched pairs ("Simple improved confidence intervals for comparing
    matched proportions", Statistics in Medicine 24, 2005), of as many programs as their clusters leave, and of the t distribution of
    these clusters: the normal's takes four of four for a difference (p = 0.009 where an exact test has 0.125). Of recipes, variances
    over seeds (as Welch has them, since seeds of two recipes share nothing but their number) and over programs, crossed as in
    `over_seeds`; their rates are compared by an exact permutation test. `same_runs`: row s of both sides is one run under two
    conditions; then the seeds are paired. `standing`: whether a side is a model that no seed could have made another.

    Raises:
        ValueError: the sides have no outcomes, or other numbers of programs (or, with `same_runs`, of seeds).
    """
    before, after = (np.atleast_2d(np.asarray(side, dtype=float)) for side in (baseline, treatment))
    if not before.size or before.shape[1] != after.shape[1] or (same_runs and before.shape != after.shape):
        raise ValueError("a comparison needs two sides with outcomes of the same, one or more, programs")
    of = codes(clusters, before.shape[1])
    varies = [len(side) > 1 for side in (before, after)]
    repeated = any(varies) and all(one or other for one, other in zip(varies, standing))
    changes = after.mean(axis=0) - before.mean(axis=0)
    centre, variance = adjusted(changes, of)
    runs = Spread(centre, ((math.sqrt(variance), int(of.max()) or 1e-9),))
    gained, lost = _moved(before, after, same_runs)
    vary = [after - before] if same_runs else [side for side in (before, after) if len(side) > 1]
    noise = sum(shared(side, of) for side in vary)
    first, second = (side.sum(axis=1).round().astype(np.int64) for side in (before, after))
    return Difference(
        before.shape[1],
        int(of.max()) + 1,
        (len(before), len(after)),
        repeated,
        same_runs,
        float(before.mean()),
        float(after.mean()),
        gained,
        lost,
        between_and_among([side.mean(axis=1) for side in vary], changes, of, noise) if repeated else None,
        runs,
        (first, second),
        math.floor(min(_drawn_in(runs, noise), 2.0) * before.shape[1]),
    )


def _drawn_in(runs: Spread, noise: float) -> float:
    """By how much a difference is drawn towards 0, so that a test of seeds, which takes programs as given, holds for others too.

    It is what programs add to an interval of seeds alone: q (sqrt(S + V) - sqrt(S)), where V is the variance over programs, S that over
    seeds and q Student's quantile. S is taken as small as it can be, as the noise of single answers (V / 2 at least; below that the
    interval of `runs` decides): one run that fails would enlarge it and leave programs out of account.
    """
    ((error, degrees),) = runs.parts
    programs = max(error**2 - noise, 0.0)
    seeds = max(noise, programs / 2)
    return quantile(LEVEL, degrees) * (math.sqrt(seeds + programs) - math.sqrt(seeds))


def _ends(spread: Spread, level: float) -> tuple[float, float]:
    half = spread.half(level)
    return max(spread.centre - half, -1.0), min(spread.centre + half, 1.0)


def _moved(before: Floats, after: Floats, same_runs: bool) -> tuple[float, float]:
    if same_runs:
        return float(((1 - before) * after).mean(axis=0).sum()), float((before * (1 - after)).mean(axis=0).sum())
    first, second = before.mean(axis=0), after.mean(axis=0)
    return float(((1 - first) * second).sum()), float((first * (1 - second)).sum())
