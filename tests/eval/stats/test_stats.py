"""Holds intervals and tests to published examples, and to what they promise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.eval.stats import (
    boschloo,
    clopper_pearson,
    compare,
    levels,
    mean,
    power_of_solved,
    rate,
)
from remedy.eval.stats.exact import most_failing, permutation_test, sign_flips


def test_wilson_interval_of_a_published_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I: 81 of 263, Wilson without continuity correction.
    found = rate([True] * 81 + [False] * 182)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert (found.size, found.effective) == (263, 263)
    assert rate([False] * 10).low == 0.0
    assert rate([False] * 10).high > 0.2


def test_agresti_min_interval_of_a_published_example() -> None:
    # Agresti & Min (2005): the prime minister's ratings, 1600 people: 794, 150, 86, 570; difference 0.04.
    before = [True] * 944 + [False] * 656
    after = [True] * 794 + [False] * 150 + [True] * 86 + [False] * 570
    found = compare(np.array([before]), np.array([after]))
    assert [round(end, 3) for end in found.interval()] == [-0.059, -0.021]
    assert (found.gained, found.lost, round(found.mean, 4)) == (86, 150, -0.04)


@pytest.mark.parametrize("programs", [2, 3, 5, 8, 13, 21, 30])
def test_few_programs_of_two_runs_seldom_differ_by_chance(programs: int) -> None:
    """Every outcome of as many programs, gained and lost alike: how often one is decided, at the worst share that changes. Where
    nearly all change, outcomes are so few that no rule decides close to one in twenty of them."""
    decided = [
        (gained, lost)
        for gained in range(programs + 1)
        for lost in range(programs + 1 - gained)
        if compare(
            np.array([[0.0] * gained + [1.0] * lost + [0.0] * (programs - gained - lost)]),
            np.array([[1.0] * gained + [0.0] * lost + [0.0] * (programs - gained - lost)]),
        ).p_of_runs
        < 0.05
    ]

    def chance(change: float) -> float:
        return sum(
            math.comb(programs, gained)
            * math.comb(programs - gained, lost)
            * (change / 2) ** (gained + lost)
            * (1 - change) ** (programs - gained - lost)
            for gained, lost in decided
        )

    found = [chance(step / 50) for step in range(1, 51)]
    assert max(found[:38]) < 0.055
    assert max(found) < 0.08


def test_clopper_pearson_interval_of_a_published_example() -> None:
    # The same table of Newcombe's: 15 of 148.
    assert [round(end, 4) for end in clopper_pearson(15, 148)] == [0.0578, 0.1617]
    assert clopper_pearson(3, 3) == (pytest.approx(0.025 ** (1 / 3)), 1.0)
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_levels_say_what_holms_adjusted_p_values_say(p_values: list[float]) -> None:
    adjusted = dict.fromkeys(range(len(p_values)), 0.0)
    most = 0.0
    for number, place in enumerate(sorted(adjusted, key=lambda place: p_values[place])):
        most = max(most, (len(p_values) - number) * p_values[place])
        adjusted[place] = most
    for place, (p_value, level) in enumerate(zip(p_values, levels(p_values), strict=True)):
        assert (p_value < level) == (adjusted[place] < 0.05) or math.isclose(adjusted[place], 0.05)


def test_programs_of_one_cluster_count_together() -> None:
    outcomes = [True] * 30 + [False] * 30
    alike = rate(outcomes, [number // 5 for number in range(60)])
    assert alike.effective == pytest.approx(12, rel=0.1)
    assert alike.high - alike.low > 2 * (rate(outcomes).high - rate(outcomes).low)
    # A program that is drawn five times says as much as one: so where all are right, too.
    assert rate([True] * 60, [number // 5 for number in range(60)]).effective == 12
    assert rate([True] * 5, ["same"] * 5).low < 0.01
    # Clusters that are no more alike than chance take little away.
    assert rate(outcomes, [number % 30 for number in range(60)]).effective > 57
    with pytest.raises(ValueError, match="2 clusters of 1 outcomes"):
        rate([True], ["a", "b"])


def test_means_have_a_t_interval_over_clusters_within_their_range() -> None:
    result = mean([0.2, 0.4, 0.6, 0.8])
    assert result.mean == pytest.approx(0.5)
    assert result.high - result.mean == pytest.approx(3.1824 * 0.2582 / 2, abs=1e-3)
    assert (mean([0.0, 1.0]).low, mean([0.0, 1.0]).high) == (0.0, 1.0)
    assert mean([0.4])[:3] == (0.4, 0.0, 1.0)
    assert mean([1.0] * 3)[1:3] == rate([True] * 3)[1:3]
    twice = mean([0.2, 0.2, 0.4, 0.4, 0.9, 0.9], list("aabbcc"))
    assert twice[:3] == pytest.approx(mean([0.2, 0.4, 0.9])[:3])
    with pytest.raises(ValueError, match="no values"):
        mean([])


counts = st.lists(st.integers(0, 20), min_size=1, max_size=4)


pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80)


@given(pairs, st.integers(1, 4), st.integers(1, 3))
def test_a_difference_is_antisymmetric_and_its_interval_possible(
    found: list[tuple[bool, bool]], seeds: int, size: int
) -> None:
    before, after = (np.array([[pair[side] for pair in found]] * seeds) for side in (0, 1))
    clusters = [number // size for number in range(len(found))]
    one, other = compare(before, after, clusters), compare(after, before, clusters)
    assert one.mean == pytest.approx(-other.mean)
    assert one.p_of_runs == pytest.approx(other.p_of_runs)
    low, high = one.interval()
    assert -1 <= low <= high <= 1
    assert (low, high) == pytest.approx(tuple(-end for end in reversed(other.interval())))


@given(counts, counts)
def test_permutations_are_those_that_can_be_written_down(before: list[int], after: list[int]) -> None:
    found, few = permutation_test(np.array(before), np.array(after)), min(len(before), len(after))
    kinds = [[round(k * len(side) / few) for side in (before, after)] for k in range(few + 1)]
    exchanged = [
        [itertools.combinations(side, size) for side, size in zip((before, after), sizes, strict=True)]
        for sizes in kinds
    ]
    above = [
        np.array([sum(one) * sizes[1] - sum(other) * sizes[0] for one, other in itertools.product(*both)])
        for sizes, both in zip(kinds, exchanged, strict=True)
    ]
    weights = [math.comb(few, k) ** 2 / math.comb(2 * few, few) for k in range(few + 1)]
    shares = [[np.mean(sign * one >= 0) for one in above] for sign in (1, -1)]
    assert found == pytest.approx(tuple(np.dot(weights, one) for one in shares))
    if len(before) == len(after):
        sums = np.array([sum(chosen) for chosen in itertools.combinations(before + after, few)])
        assert found == pytest.approx((np.mean(sums >= sum(after)), np.mean(sums <= sum(after))))
    changes = [one - 10 for one in after]
    signed = [
        sum(sign * one for sign, one in zip(signs, changes))
        for signs in itertools.product((1, -1), repeat=len(changes))
    ]
    found = sign_flips(np.array(changes))
    assert found == pytest.approx(
        (np.mean(np.array(signed) >= sum(changes)), np.mean(np.array(signed) <= sum(changes)))
    )


def test_exact_p_values_of_examples_by_hand() -> None:
    # Separated: one half to the power of all trainings, twice.
    assert boschloo(0, 3, 3, 3).p_value == pytest.approx(2 / 2**6)
    assert boschloo(0, 4, 4, 4).p_value == pytest.approx(2 / 2**8)
    assert boschloo(3, 3, 3, 3).p_value == boschloo(0, 3, 0, 3).p_value == 1
    assert permutation_test(np.arange(5), np.arange(5, 10)).p_value == pytest.approx(2 / math.comb(10, 5))
    assert sign_flips(np.arange(1, 7)).p_value == pytest.approx(2 / 2**6)
    # The least bounds of the share that fails: 0.9^29 and 0.95^59 are the first powers below 5 %.
    assert most_failing(0, 29) < 0.1 < most_failing(0, 28)
    assert most_failing(0, 59) < 0.05 < most_failing(0, 58)
    # 0 of 3 against Binomial(3, 0.9): decided if all three solve it.
    assert power_of_solved((0.0, 0.9), (3, 3)) == pytest.approx(0.9**3)
