"""Differences of two recipes, or of two runs, on the same programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL, Floats, codes, quantile
from remedy.eval.stats.exact import Counts, PValues, permutation_test, sign_flips
from remedy.eval.stats.seeds import Spread, adjusted, between_and_among, shared

SEEDS_A_SIDE, RUNS_ON_BOTH = 5, 6
"""The fewest seeds per side, and the fewest matched runs, for a test of rates; four per side could reach p = 0.03, but are not used."""


def too_few(seeds: tuple[int, int], matched: bool) -> bool:
    return max(seeds) < RUNS_ON_BOTH if matched else min(seeds) < SEEDS_A_SIDE


class Difference(NamedTuple):
    """Treatment less baseline on the same examples; rates are means over seeds and examples.

    Pairs are (baseline, treatment). `examples`: per seed. `of_recipes`: it holds for other seeds too. `gained`, `lost`:
    programs that turn right, and wrong, over pairs of runs. `recipes`: spread over seeds and programs. `runs`: spread
    over programs, shrunk towards 0. `right`: right answers by seed. `shrinkage`: right answers by which tests shrink
    the difference.
    """

    examples: int
    clusters: int
    seeds: tuple[int, int]
    of_recipes: bool
    same_runs: bool
    baseline: float
    treatment: float
    gained: float
    lost: float
    recipes: Spread | None
    runs: Spread
    right: tuple[Counts, ...]
    shrinkage: int

    @property
    def mean(self) -> float:
        return self.treatment - self.baseline

    @property
    def matched(self) -> bool:
        """True if each run has a counterpart: itself, or a single model."""
        return self.same_runs or min(self.seeds) == 1

    def test(self, less: int = 0) -> PValues:
        """Test exactly if the treatment's rates are the baseline's less `less` right answers."""
        before, after = self.right
        up, down = (
            sign_flips(after + move - before) if self.matched else permutation_test(before, after + move)
            for move in (less - self.shrinkage, less + self.shrinkage)
        )
        return PValues(up.up, down.down)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval for recipes, or else for these runs, cut to [-1, 1]."""
        return (self.recipes or self.runs).interval(level)

    @property
    def p_of_runs(self) -> float:
        """The two-sided p-value for these runs; it agrees with their interval."""
        return min(1.0, *self.runs.p_values())


def compare(
    baseline: Floats,
    treatment: Floats,
    clusters: Sequence[object] | None = None,
    same_runs: bool = False,
    without_seeds: tuple[bool, bool] = (False, False),
) -> Difference:
    """Estimate the difference of two sides' outcomes (S, P) on the same programs.

    For these runs: Agresti and Min's adjusted interval for matched pairs (Statistics in Medicine 24, 2005), with the t
    distribution of the clusters. For recipes: Welch's variances over seeds, crossed with those over programs as in
    `over_seeds`, and exact permutation tests. `same_runs`: row s of both sides is one run under two conditions.
    `without_seeds`: the side is a model that no seed could change.

    Raises:
        ValueError: the sides have no outcomes, or differ in programs (with `same_runs`, in seeds).
    """
    before, after = (np.atleast_2d(np.asarray(side, dtype=float)) for side in (baseline, treatment))
    if not before.size or before.shape[1] != after.shape[1] or (same_runs and before.shape != after.shape):
        raise ValueError("a comparison needs two sides with outcomes of the same, one or more, programs")
    cluster_of = codes(clusters, before.shape[1])
    varies = [len(side) > 1 for side in (before, after)]
    of_recipes = any(varies) and all(several or fixed for several, fixed in zip(varies, without_seeds))
    changes = after.mean(axis=0) - before.mean(axis=0)
    centre, variance = adjusted(changes, cluster_of)
    # 1e-9 degrees of freedom, of one cluster: the interval is all of [-1, 1].
    runs = Spread(centre, ((math.sqrt(variance), int(cluster_of.max()) or 1e-9),))
    # Of paired runs, outcomes that change; of others, expected changes over all pairs.
    first, second = [before, after] if same_runs else [side.mean(axis=0, keepdims=True) for side in (before, after)]
    gained, lost = (float(((1 - old) * new).mean(axis=0).sum()) for old, new in ((first, second), (second, first)))
    varying = [after - before] if same_runs else [side for side in (before, after) if len(side) > 1]
    noise = sum(shared(side, cluster_of) for side in varying)
    return Difference(
        before.shape[1],
        int(cluster_of.max()) + 1,
        (len(before), len(after)),
        of_recipes,
        same_runs,
        float(before.mean()),
        float(after.mean()),
        gained,
        lost,
        between_and_among([side.mean(axis=1) for side in varying], changes, cluster_of, noise) if of_recipes else None,
        runs,
        tuple(side.sum(axis=1).round().astype(np.int64) for side in (before, after)),
        math.floor(min(_shrinkage(runs, noise), 2.0) * before.shape[1]),
    )


def _shrinkage(runs: Spread, noise: float) -> float:
    """Return how far to shrink a difference towards 0 before seeds are tested.

    It is what programs add to an interval over seeds: q (sqrt(S + V) - sqrt(S)), with variances V over programs and S
    over seeds, and Student's quantile q.
    """
    ((error, degrees),) = runs.parts
    programs = max(error**2 - noise, 0.0)
    # The least that seeds can vary, by the noise of single answers: one failed run would enlarge it and hide the programs.
    seeds = max(noise, programs / 2)
    return quantile(LEVEL, degrees) * (math.sqrt(seeds + programs) - math.sqrt(seeds))
