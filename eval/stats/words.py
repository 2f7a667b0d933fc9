"""Verdicts: on recipes by exact tests, on runs by an interval over programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np

from remedy.eval.stats.clusters import LEVEL
from remedy.eval.stats.differences import Difference, too_few
from remedy.eval.stats.exact import (
    Counts,
    PValues,
    boschloo,
    clopper_pearson,
    most_failing,
    permutation_test,
    sign_flips,
)
from remedy.eval.stats.seeds import RecipeRate

MARGIN = 0.02
"""The default loss below which a recipe counts as good."""
Question = Literal["solved", "rates"]
"""The question about recipes: how many of their trainings solve the task, or how far their rates differ."""


class VerdictWord(StrEnum):
    """A verdict on recipes, or on runs if there is one seed."""

    FIXED = "fixed"
    """Better, and the failure is gone."""
    HELPED = "helped"
    """Better."""
    AS_GOOD = "as good"
    """Not shown to differ, and shown to lose less than the margin."""
    WORSE = "worse"
    """Worse."""
    INCONCLUSIVE = "inconclusive"
    """None of these is shown."""


class Evidence(NamedTuple):
    """Evidence of a comparison; `question`: None for single runs.

    `up`, `down`: two-sided p-values of the treatment being better and worse, each at least that of these runs alone.
    """

    question: Question | None
    up: float
    down: float
    solved: PValues | None
    """The test of solved trainings, whatever was asked."""

    @property
    def p_value(self) -> float:
        return min(1.0, self.up, self.down)


def compute_evidence(
    difference: Difference, baseline: RecipeRate, treatment: RecipeRate, asks: Question | None = None
) -> Evidence:
    """Test a comparison: rates by default, solved trainings if seeds are few.

    Raises:
        ValueError: rates are asked of too few seeds.
    """
    if not difference.of_recipes:
        return Evidence(None, *difference.runs.p_values(), None)
    solved = _solved(difference, baseline, treatment)
    few = too_few(difference.seeds, difference.matched)
    question: Question = asks or ("solved" if few else "rates")
    if question == "rates" and few:
        raise ValueError("too few seeds for a test of rates")
    test = difference.test() if question == "rates" else solved
    up, down = map(max, (2 * test.up, 2 * test.down), difference.runs.p_values())
    return Evidence(question, up, down, solved)


def _solved(difference: Difference, baseline: RecipeRate, treatment: RecipeRate) -> PValues:
    if difference.matched:  # McNemar's exact test; an untrained model is the counterpart of every run
        return sign_flips(np.subtract(treatment.solves, baseline.solves, dtype=np.int64))
    return boschloo(baseline.solved, difference.seeds[0], treatment.solved, difference.seeds[1])


def least_p(question: Question, seeds: tuple[int, int], matched: bool = False) -> float:
    """Return the least p-value that a question can have with these seeds."""
    before, after = seeds
    if matched:
        return 2 * math.pow(0.5, max(seeds))
    if question == "solved":
        return boschloo(0, before, after, after).p_value
    return 2 / math.comb(2 * min(seeds), min(seeds))


def word(
    difference: Difference,
    baseline: RecipeRate,
    treatment: RecipeRate,
    evidence: Evidence,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> VerdictWord:
    """Judge a comparison of recipes; single runs go to `word_of_runs`.

    - Helped, worse: the direction's p-value is below the level.
    - Fixed: helped, more trainings solve the task at the level, and the interval of their share is above half (six of
      six at 5 %) and above the baseline's.
    - As good: rates lose less than `margin`, here and on other programs. For solved trainings: fewer than `margin` of
      all fail (29 of 29 for 10 %, 59 of 59 for 5 %), and the others lose less than `margin` against those of the
      baseline that solve it.
    """
    if not difference.of_recipes:
        return word_of_runs(difference, baseline, treatment, level, margin)
    if evidence.up < level:
        shares = [clopper_pearson(side.solved, len(side.runs), level) for side in (baseline, treatment)]
        # One-sided, so at half the level.
        solves_more = evidence.solved is not None and evidence.solved.up < level / 2
        fixed = solves_more and shares[1][0] > max(0.5, shares[0][1])
        return VerdictWord.FIXED if fixed else VerdictWord.HELPED
    if evidence.down < level:
        return VerdictWord.WORSE
    allowed_loss = math.floor(margin * difference.examples)
    if evidence.question == "solved":
        as_good = _solves_as_well(baseline, treatment, level, margin, allowed_loss)
    else:  # a rate below the margin could not lose it
        as_good = difference.baseline > margin and difference.test(allowed_loss).up < level
    as_good = as_good and difference.runs.interval(2 * level)[0] > -margin
    return VerdictWord.AS_GOOD if as_good else VerdictWord.INCONCLUSIVE


def _solves_as_well(
    baseline: RecipeRate, treatment: RecipeRate, level: float, margin: float, allowed_loss: int
) -> bool:
    failed = len(treatment.runs) - treatment.solved
    if not baseline.solved or most_failing(failed, len(treatment.runs), level) >= margin:
        return False
    before, shifted = _counts(baseline), _counts(treatment) + allowed_loss
    test = sign_flips(shifted - before) if len(baseline.runs) == 1 else permutation_test(before, shifted)
    return test.up < level


def _counts(side: RecipeRate) -> Counts:
    return np.array(
        [round(run.mean * run.size) for run, solves in zip(side.runs, side.solves) if solves], dtype=np.int64
    )


def word_of_runs(
    difference: Difference, baseline: RecipeRate, treatment: RecipeRate, level: float = LEVEL, margin: float = MARGIN
) -> VerdictWord:
    """Judge a comparison of these runs alone, on other programs.

    - Helped, worse: the interval excludes 0.
    - Fixed: helped, every run of the treatment solves the task, and every interval of the baseline is below
      `solved_at`.
    - As good: the lower end is above -`margin`, and the baseline's rate above `margin`.
    """
    low, high = difference.runs.interval(level)
    if high < 0:
        return VerdictWord.WORSE
    if low > 0:
        failed = all(run.high < baseline.solved_at for run in baseline.runs)
        return VerdictWord.FIXED if failed and all(treatment.solves) else VerdictWord.HELPED
    as_good = low > -margin and baseline.estimate.mean > margin  # a lower rate could not lose it
    return VerdictWord.AS_GOOD if as_good else VerdictWord.INCONCLUSIVE


def levels(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """Return each comparison's level: its p-value is below it exactly if Holm (1979) rejects."""
    order = np.argsort(p_values, kind="stable")
    adjusted, rejecting = [level] * len(p_values), True
    last = level
    for rank, index in enumerate(order):
        if rejecting:  # the first that is not rejected, and all after it, keep its level
            last = level / (len(order) - rank)
            rejecting = p_values[index] < last
        adjusted[int(index)] = last
    return adjusted
