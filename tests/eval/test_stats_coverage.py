"""Holds, by simulation, that intervals cover the truth and verdicts are false as rarely as they say: benchmarks/RESULTS.md has more."""

import numpy as np
import pytest

from benchmarks.verdicts import bimodal, changed, clusters, covered_rate, false_verdict, smooth, two_recipes
from remedy.eval.stats import VerdictWord, compare, compound, over_seeds, pooled, word

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


@pytest.mark.parametrize("coherence", [0.0, 0.3, 0.6])
def test_two_checkpoints_that_do_not_differ_are_rarely_told_apart(coherence: float) -> None:
    generator, of = np.random.default_rng(0), clusters("HumanEval")
    found = [compare(*changed(generator, "HumanEval", 0.05, 0.05, coherence), of).p_value < 0.05 for _ in range(DRAWS)]
    assert np.mean(found) <= MOST


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    ("baseline", "treatment"),
    [
        (smooth(0.8, 0.5), smooth(0.8, 0.5)),
        (smooth(0.8, 0.3), smooth(0.9, 0.3)),
        (bimodal(0.5), bimodal(0.5)),
        (bimodal(0.1), bimodal(0.9)),
        (bimodal(0.0), bimodal(1.0)),
    ],
    ids=["the same", "better", "half solve", "1 to 9 in 10 solve", "none to all solve"],
)
def test_the_interval_of_two_recipes_covers_their_difference(baseline: object, treatment: object, seeds: int) -> None:
    generator = np.random.default_rng(0)
    truth = 0.0 if baseline == treatment else treatment.truth() - baseline.truth()  # type: ignore[attr-defined]
    covered = decided = 0
    for _ in range(DRAWS // 2):
        before, after, of = two_recipes(generator, baseline, treatment, seeds, "200 programs")  # type: ignore[arg-type]
        low, high = compare(before, after, of).interval()
        covered += low <= truth <= high
        decided += low > 0 or high < 0
    assert covered / (DRAWS // 2) >= FEWEST
    if baseline == treatment:
        assert decided / (DRAWS // 2) <= MOST


@pytest.mark.parametrize("length", [16, 32, 64])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_seeds_of_one_recipe_are_rarely_called_different(length: int, seeds: int) -> None:
    generator = np.random.default_rng(0)
    said = [false_verdict(generator, length, seeds) for _ in range(DRAWS // 2)]
    false = {VerdictWord.FIXED, VerdictWord.HELPED, VerdictWord.WORSE}
    assert sum(one in false for one in said) / len(said) <= MOST


def test_a_recipe_of_which_half_the_trainings_solve_is_rarely_called_fixed() -> None:
    generator = np.random.default_rng(0)
    fixed = 0
    for _ in range(DRAWS):
        before, after, of = two_recipes(generator, bimodal(0.0), bimodal(0.5), 6, "60 programs")
        fixed += word(compare(before, after, of), over_seeds(before, of), over_seeds(after, of)) == VerdictWord.FIXED
    assert fixed / DRAWS <= 0.05


@pytest.mark.parametrize("error", [0.005, 0.1])
@pytest.mark.parametrize("spread", [0.0, 0.8])
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
