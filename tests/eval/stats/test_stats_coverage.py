"""Holds, by simulation, that intervals cover the truth and verdicts are false as rarely as they say: benchmarks/RESULTS.md has more."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.verdicts import (
    SAME,
    Recipe,
    bimodal,
    changed,
    clusters,
    covered_rate,
    report,
    said,
    smooth,
    two_recipes,
)
from remedy.eval.stats import VerdictWord, compare, compound, pooled

DRAWS = 400
FEWEST, MOST = 0.92, 0.075  # 93 % and 5 %, as far as 400 draws can tell


@pytest.mark.parametrize(
    ("programs", "correlation", "rate"),
    [("200 programs", 0.0, 0.9), ("HumanEval", 0.37, 0.91), ("HumanEval", 0.37, 0.98), ("9 problems", 0.37, 0.9)],
)
def test_the_interval_of_one_checkpoint_covers_its_rate(programs: str, correlation: float, rate: float) -> None:
    generator = np.random.default_rng(0)
    found = [covered_rate(generator, programs, rate, correlation) for _ in range(DRAWS)]
    covered, ignoring_clusters = np.mean(found, axis=0)
    assert covered >= FEWEST
    assert ignoring_clusters < 0.88 or correlation == 0


@pytest.mark.parametrize("coherence", [0.0, 0.6])
def test_two_checkpoints_that_do_not_differ_are_rarely_told_apart(coherence: float) -> None:
    generator, of = np.random.default_rng(0), clusters("HumanEval")
    found = [
        compare(*changed(generator, "HumanEval", 0.05, 0.05, coherence), of).p_of_runs < 0.05 for _ in range(DRAWS)
    ]
    assert np.mean(found) <= MOST


@pytest.mark.parametrize(
    ("baseline", "treatment", "seeds"),
    [(smooth(0.8, 0.5), smooth(0.8, 0.5), 3), (smooth(0.8, 0.3), smooth(0.9, 0.3), 5)],
    ids=["the same", "better"],
)
def test_the_interval_of_two_smooth_recipes_covers_their_difference(
    baseline: Recipe, treatment: Recipe, seeds: int
) -> None:
    generator = np.random.default_rng(0)
    truth, covered = treatment.truth() - baseline.truth(), 0
    for _ in range(DRAWS // 2):
        low, high = compare(*two_recipes(generator, baseline, treatment, seeds, "200 programs")).interval()
        covered += low <= truth <= high
    assert covered / (DRAWS // 2) >= FEWEST


@pytest.mark.parametrize(
    ("name", "seeds", "arms"),
    [
        ("50% fail at 33 %, others have 99.9 %", 3, 10),
        ("half have 17 %, half 90 %", 6, 1),
        ("80 %, seeds apart", 6, 10),
    ],
)
def test_a_recipe_is_rarely_called_other_than_itself(name: str, seeds: int, arms: int) -> None:
    generator, draws = np.random.default_rng(0), DRAWS // 2 // arms + 20
    false = sum(report(generator, SAME[name], seeds, arms) for _ in range(draws))
    assert false <= binom.ppf(0.999, draws, 0.05)


def test_a_recipe_that_sometimes_fails_is_rarely_called_as_good() -> None:
    """Of 29 seeds, where the share that fails is the margin, and of three, where a tenth fails (it was said in 73 % of reports)."""
    generator = np.random.default_rng(0)
    for seeds, draws in ((29, 40), (3, 100)):
        words = [
            said(*two_recipes(generator, bimodal(1.0), bimodal(0.9), seeds, "200 programs"), margin=0.1, asks="solved")
            for _ in range(draws)
        ]
        assert sum(one is VerdictWord.AS_GOOD for one in words) <= binom.ppf(0.999, draws, 0.05)


def test_a_recipe_of_which_half_the_trainings_solve_is_rarely_called_fixed() -> None:
    generator = np.random.default_rng(0)
    words = [said(*two_recipes(generator, bimodal(0.0), bimodal(0.5), 6, "200 programs")) for _ in range(DRAWS // 2)]
    assert sum(one is VerdictWord.FIXED for one in words) / len(words) <= 0.05


@pytest.mark.parametrize(("error", "spread"), [(0.005, 0.8), (0.1, 0.0)])
def test_the_interval_of_what_single_steps_come_to_covers_it(error: float, spread: float) -> None:
    """Programs whose traces are alike or of very unequal length, and errors that are rare or frequent."""
    generator = np.random.default_rng(0)
    lengths = np.exp(generator.normal(np.log(20), spread, 100_000)).round().clip(1)
    truth, covered = float(((1 - error) ** lengths).mean()), 0
    for _ in range(DRAWS // 2):
        steps = generator.choice(lengths, 60).astype(int)
        right = generator.binomial(steps, 1 - error)
        found = pooled(right.tolist(), steps.tolist(), range(60))
        expected, low, high = compound(steps[:, None], [found[:3]], range(60))
        assert low <= expected <= high
        covered += low <= truth <= high
    assert covered / (DRAWS // 2) >= FEWEST
