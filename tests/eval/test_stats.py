"""Holds the statistics to published examples, to tests by hand, and to what their intervals promise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.eval.stats import mean, paired, rate, unpaired, verdict


def test_wilson_interval_of_a_published_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I: 81 of 263, Wilson without continuity correction.
    found = rate([True] * 81 + [False] * 182)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert rate([False] * 10).low == 0.0
    assert rate([False] * 10).high > 0.2


def test_mcnemar_exact_by_hand() -> None:
    before = [False] * 8 + [True] * 2 + [True] * 10
    after = [True] * 8 + [False] * 2 + [True] * 10
    found = paired(before, after)
    by_hand = 2 * sum(math.comb(10, k) for k in range(3)) / 2**10
    assert found.p_value == pytest.approx(by_hand)
    assert (found.gained, found.lost, found.difference) == (8, 2, 0.3)


def test_agresti_min_interval_of_a_published_example() -> None:
    # Agresti & Min (2005): the prime minister's ratings, 1600 people: 794, 150, 86, 570; difference 0.04.
    before = [True] * 944 + [False] * 656
    after = [True] * 794 + [False] * 150 + [True] * 86 + [False] * 570
    found = paired(before, after)
    assert (round(found.low, 3), round(found.high, 3)) == (-0.059, -0.021)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_paired_is_antisymmetric_and_its_interval_holds_no_impossible_value(pairs: list[tuple[bool, bool]]) -> None:
    before, after = ([pair[i] for pair in pairs] for i in (0, 1))
    one, other = paired(before, after), paired(after, before)
    assert one.difference == pytest.approx(-other.difference)
    assert one.p_value == pytest.approx(other.p_value)
    assert -1 <= one.low <= one.high <= 1
    assert one.low == pytest.approx(-other.high)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        before = generator.random(60) < 0.5
        after = np.where(before, generator.random(60) < 0.9, generator.random(60) < 0.4)
        found = paired(before.tolist(), after.tolist())
        covered += found.low <= 0.5 * 0.9 + 0.5 * 0.4 - 0.5 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ([False] * 40, [True] * 40, "fixed"),
        ([False] * 40, [True] * 20 + [False] * 20, "helped"),
        ([True] * 40, [True] * 20 + [False] * 20, "worse"),
        ([True] * 40, [True] * 40, "no evidence"),
        ([True] * 20 + [False] * 20, [True] * 22 + [False] * 18, "no evidence"),
    ],
)
def test_verdicts(before: list[bool], after: list[bool], word: str) -> None:
    assert verdict(paired(before, after)) == word


def test_unequal_or_empty_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="equally long"):
        paired([True], [True, False])
    with pytest.raises(ValueError, match="no outcomes"):
        rate([])


def test_independent_rates_have_newcombes_interval_and_fishers_test() -> None:
    # Newcombe (1998), example a: 56 of 70 against 48 of 80, method 10.
    result = unpaired([True] * 48 + [False] * 32, [True] * 56 + [False] * 14)
    assert result.difference == pytest.approx(0.2)
    assert (result.low, result.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))
    assert result.p_value == pytest.approx(0.0115, abs=2e-3)
    with pytest.raises(ValueError, match="no outcomes"):
        unpaired([], [True])


def test_means_have_a_t_interval_within_their_range() -> None:
    result = mean([0.2, 0.4, 0.6, 0.8])
    assert result.mean == pytest.approx(0.5)
    assert result.high - result.mean == pytest.approx(3.1824 * 0.2582 / 2, abs=1e-3)
    assert (mean([1.0, 1.0]).low, mean([0.0, 1.0]).low, mean([0.0, 1.0]).high) == (1.0, 0.0, 1.0)
    assert mean([0.4])[:3] == (0.4, 0.0, 1.0)
    with pytest.raises(ValueError, match="no values"):
        mean([])
