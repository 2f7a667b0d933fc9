"""Holds what is said before a training to simulated experiments, judged as reports judge them."""

import itertools
import math

import numpy as np
import pytest

from remedy.eval.stats import compare, rate
from remedy.eval.stats.power import (
    WITHIN,
    decidable,
    independent,
    programs_for,
    right_for,
    seeds_to_show,
    separating,
    smallest_difference,
)

PROGRAMS = 100


def outcomes(
    generator: np.random.Generator, rates: np.ndarray, programs: np.ndarray, difficulty: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Right ones of seeds with these rates (S, 1). On half of all pairs of seeds a program's outcomes hang on the shared `difficulty`;
    two outcomes of a program hang on one number with probability WITHIN."""
    size = len(rates), len(programs)
    own = generator.random((len(rates), PROGRAMS)), generator.random(size)
    shared = (generator.random((len(rates), PROGRAMS)) < math.sqrt(0.5))[:, programs]
    together = (generator.random(size) < math.sqrt(WITHIN)) & (len(programs) > PROGRAMS)
    draws = np.where(shared, *(np.where(together, whole[..., programs], each) for whole, each in (difficulty, own)))
    return (draws < rates).astype(float)


@pytest.mark.parametrize(
    ("seeds", "level", "units", "spread"),
    [
        ((6, 6), 0.05, 1, 0.06),
        ((math.inf, 8), 0.05, 1, 0.06),
        ((6, 6), 0.05, 8, 0.03),  # outcomes of a program are not independent
        ((6, 6), 0.05 / 13, 1, 0.1),  # only seeds that are all better have so small a p-value
    ],
)
def test_what_is_called_the_smallest_difference_is_seen_four_times_in_five(
    seeds: tuple[float, float], level: float, units: int, spread: float
) -> None:
    generator = np.random.default_rng(0)
    effective = independent(units * PROGRAMS, PROGRAMS)
    smallest = smallest_difference(seeds, effective, rate=0.4, spread=spread, level=level)
    programs, seen = np.repeat(np.arange(PROGRAMS), units), 0
    for _ in range(150):
        difficulty = generator.random(PROGRAMS), generator.random(len(programs))
        sides = []
        for given, mean in zip(seeds, (0.4, 0.4 + smallest), strict=True):
            count = 1 if math.isinf(given) else int(given)
            noise = spread * generator.normal(size=(count, 1)) * (count > 1)
            sides.append(outcomes(generator, np.clip(mean + noise, 0, 1), programs, difficulty))
        clusters = programs.tolist()
        before, after = sides
        found = compare(before, after, clusters, without_seeds=(math.isinf(seeds[0]), False))
        # As `compute_evidence` has it.
        seen += max(2 * found.test().up, found.runs.p_values()[0]) < level
    assert 0.7 <= seen / 150 <= 0.96


def test_outcomes_of_a_program_say_as_much_as_fewer_independent_ones() -> None:
    """720 states of 60 programs, 12 each: the variance of their mean is that of 720 / (1 + 11 x 0.1) independent ones."""
    assert independent(720, 60) == pytest.approx(720 / 2.1)
    assert independent(60, 60) == 60
    assert independent(720, 60, within=1) == pytest.approx(60)
    alike = {smallest_difference((1, 1), count) for count in (720 / 2.1, independent(720, 60))}
    assert len({round(one, 9) for one in alike}) == 1


def test_recipes_lie_so_far_apart_if_their_seeds_do_not_mix() -> None:
    generator = np.random.default_rng(1)
    before, after = generator.normal(size=(2, 20_000, 4))
    apart = (after + separating((4, 4))).min(axis=1) > before.max(axis=1)
    assert apart.mean() == pytest.approx(0.8, abs=0.02)


def test_the_programs_that_show_a_rate_are_those_of_its_interval() -> None:
    fewest = next(count for count in itertools.count(1) if rate([True] * count).low >= 0.95)
    assert programs_for(0.95) == fewest == 73
    assert decidable(None, 0.95, (3, 3), False, 50) == (
        "nothing: 50 programs cannot show 95%, even if all are right; 73 can"
    )
    lows = [rate([True] * right + [False] * (13 - right)).low for right in range(14)]
    assert right_for(0.7, 13) == next(right for right, low in enumerate(lows) if low >= 0.7) == 13
    assert "with 13 of 13 right" in decidable(None, 0.7, (3, 3), False, 13)


def test_seeds_that_would_show_a_difference_are_those_of_the_smallest_that_is_seen() -> None:
    before, after = (np.arange(100) < right for right in (40, 60))
    difference = compare([before] * 3, [after] * 3)
    count, decides = seeds_to_show(difference, 0.1)
    assert (count, decides) == (9, True)
    assert (
        smallest_difference((count, count), 100, 0.5, 0.1) <= 0.2 < smallest_difference((count - 1,) * 2, 100, 0.5, 0.1)
    )
    assert seeds_to_show(compare([before] * 3, [before] * 3), 0.1) == (30, False)
