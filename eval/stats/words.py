"""The words for a comparison: of recipes by exact tests of their trainings, of single runs by an interval over programs."""

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
    Test,
    boschloo,
    clopper_pearson,
    most_failing,
    permutation,
    sign_flips,
)
from remedy.eval.stats.seeds import Repeated

MARGIN = 0.02
"""A recipe that loses less than this is as good."""
Question = Literal["solved", "rates"]
"""What is asked of recipes: how many of their trainings solve the task, or by how much their rates differ."""


class VerdictWord(StrEnum):
    """Verdict of a comparison of recipes, or of runs where there is one seed."""

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
    """Evidence of a comparison. `asked`: the question that is asked of recipes; none of single runs. `up`, `down`: two-sided p-values
    of the treatment being better, and worse: at least those of these runs on other programs."""

    asked: Question | None
    up: float
    down: float
    solved: Test | None
    """Of the trainings that solve the task, asked or not."""

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return min(1.0, self.up, self.down)


def weigh(found: Difference, baseline: Repeated, treatment: Repeated, asks: Question | None = None) -> Evidence:
    """The evidence of a comparison. `asks`: the question; by default the one that so many seeds can decide: their rates from five a
    side, and six that are on both sides, the solved trainings below.

    Raises:
        ValueError: rates are asked of fewer seeds.
    """
    if not found.repeated:
        return Evidence(None, *found.runs.p_values(), None)
    solved = _solved(found, baseline, treatment)
    few = too_few(found.seeds, found.matched)
    asked: Question = asks or ("solved" if few else "rates")
    if asked == "rates" and few:
        raise ValueError("too few seeds for a test of rates")
    test = found.test() if asked == "rates" else solved
    up, down = map(max, (2 * test.up, 2 * test.down), found.runs.p_values())
    return Evidence(asked, up, down, solved)


def _solved(found: Difference, baseline: Repeated, treatment: Repeated) -> Test:
    if found.matched:  # McNemar's exact test; a model as it is stands beside every run of the other side
        return sign_flips(np.subtract(treatment.solves, baseline.solves, dtype=np.int64))
    return boschloo(baseline.solved, found.seeds[0], treatment.solved, found.seeds[1])


def least_p(question: Question, seeds: tuple[int, int], matched: bool = False) -> float:
    """The least p-value that a question can have with so many seeds of the baseline and of the treatment. `matched`: each run has one
    on the other side, itself or a model as it is."""
    before, after = seeds
    if matched:
        return min(1.0, 2 * math.pow(0.5, max(seeds)))
    if question == "solved":
        return boschloo(0, before, after, after).p_value
    return min(1.0, 2 / math.comb(2 * min(seeds), min(seeds)))


def word(
    found: Difference,
    baseline: Repeated,
    treatment: Repeated,
    evidence: Evidence,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> VerdictWord:
    """Judge a comparison of recipes; single runs are judged by `word_of_runs`.

    Helped and worse: the p-value of that direction is below the level. Fixed: helped, more trainings than the baseline's solve the task
    (rejected at the level, after the first), and more than half of all trainings do, with confidence 1 - `level`: six of six at 5 %;
    and a larger share than the baseline's, so that their intervals lie apart. As good, with confidence 1 - `level` each, here and on
    other programs: asked for rates, the seeds' rates lose less than `margin`, by the test of rates with the treatment's raised by it;
    asked for solved trainings, fewer than `margin` of all fail (29 of 29 for 10 %, 59 of 59 for 5 %), and those that solve the task
    lose less than `margin` against those of the baseline that do.
    """
    if not found.repeated:
        return word_of_runs(found, baseline, treatment, level, margin)
    if evidence.up < level:
        shares = [clopper_pearson(side.solved, len(side.runs), level) for side in (baseline, treatment)]
        more = evidence.solved is not None and evidence.solved.up < level / 2
        fixed = more and shares[1][0] > max(0.5, shares[0][1])
        return VerdictWord.FIXED if fixed else VerdictWord.HELPED
    if evidence.down < level:
        return VerdictWord.WORSE
    loses = math.floor(margin * found.examples)
    if evidence.asked == "solved":
        as_good = _solves_as_well(baseline, treatment, level, margin, loses)
    else:  # of a rate below the margin no one could lose it
        as_good = found.baseline > margin and found.test(loses).up < level
    as_good = as_good and found.interval_of_runs(2 * level)[0] > -margin
    return VerdictWord.AS_GOOD if as_good else VerdictWord.INCONCLUSIVE


def _solves_as_well(baseline: Repeated, treatment: Repeated, level: float, margin: float, loses: int) -> bool:
    failed = len(treatment.runs) - treatment.solved
    if not baseline.solved or most_failing(failed, len(treatment.runs), level) >= margin:
        return False
    before, shifted = _counts(baseline), _counts(treatment) + loses
    test = sign_flips(shifted - before) if len(baseline.runs) == 1 else permutation(before, shifted)
    return test.up < level


def _counts(side: Repeated) -> Counts:
    """Right answers of each run that solves the task."""
    return np.array(
        [round(run.mean * run.size) for run, solves in zip(side.runs, side.solves) if solves], dtype=np.int64
    )


def word_of_runs(
    found: Difference, baseline: Repeated, treatment: Repeated, level: float = LEVEL, margin: float = MARGIN
) -> VerdictWord:
    """Judge a comparison of these runs alone, on other programs.

    Helped and worse: the interval of the difference over programs leaves out 0. Fixed: helped, every run of the treatment solves the
    task, and every one of the baseline's is below `solved_at` with all of its interval. As good: the lower end of the difference is
    above -`margin`, and the baseline has more than that to lose.
    """
    low, high = found.interval_of_runs(level)
    if high < 0:
        return VerdictWord.WORSE
    if low > 0:
        failed = all(run.high < baseline.solved_at for run in baseline.runs)
        return VerdictWord.FIXED if failed and all(treatment.solves) else VerdictWord.HELPED
    as_good = low > -margin and baseline.estimate.mean > margin  # of a rate below the margin no one could lose it
    return VerdictWord.AS_GOOD if as_good else VerdictWord.INCONCLUSIVE


def levels(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level at which each of several comparisons is judged (Holm, 1979), so that all hold together: a p-value is below its level
    where, and only where, Holm's procedure rejects."""
    order = np.argsort(p_values, kind="stable")
    found, rejecting = [level] * len(p_values), True
    last = level
    for rank, place in enumerate(order):
        if rejecting:
            last = level / (len(order) - rank)
            rejecting = p_values[place] < last
        found[int(place)] = last
    return found
