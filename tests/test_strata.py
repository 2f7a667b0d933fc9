"""Holds the comparison within strata to Mantel and Haenszel's formula, and its interval to what it promises."""

import numpy as np
import pytest

from benchmarks.published.strata import stratified


def test_mantel_and_haenszels_difference_by_hand() -> None:
    # Exposed 8 of 10 and others 1 of 5; then 3 of 4 and 6 of 12: weights 50/15 and 48/16, differences 0.6 and 0.25.
    groups = [(10, 8, 1, "a"), (5, 1, 0, "a"), (4, 3, 1, "b"), (12, 6, 0, "b"), (3, 3, 1, "c")]
    rows = [(n < happened, bool(held), name) for size, happened, held, name in groups for n in range(size)]
    outcomes, exposed, strata = (list(column) for column in zip(*rows))
    found = stratified(outcomes, exposed, strata, list(range(len(rows))))
    assert found is not None
    weights = 50 / 15, 48 / 16
    assert found.difference == pytest.approx((0.6 * weights[0] + 0.25 * weights[1]) / sum(weights))
    assert (found.size, found.strata) == ((14, 17), 2)
    assert -1 <= found.low < found.difference < found.high <= 1


def test_what_cannot_be_compared_is_none() -> None:
    assert stratified([], [], [], []) is None
    assert stratified([True, False], [True, False], ["a", "b"], [0, 1]) is None
    with pytest.raises(ValueError, match="differ in length"):
        stratified([True], [], [], [])


def test_groups_without_an_event_have_an_interval_all_the_same() -> None:
    found = stratified([False] * 20, [True, False] * 10, ["a"] * 20, list(range(20)))
    assert found is not None
    assert found.difference == 0
    assert found.low < -0.05
    assert found.high > 0.05


@pytest.mark.parametrize("size", [1, 4])
def test_the_interval_covers_in_sparse_strata_and_clusters(size: int) -> None:
    """Strata of unlike rates, in which exposure is unlike too; clusters of `size` share their stratum and much of their outcome."""
    generator = np.random.default_rng(size)
    rates, shares, effect = np.array([0.1, 0.3, 0.5, 0.6]), np.array([0.1, 0.4, 0.7, 0.95]), 0.2
    covered = plain = 0
    for _ in range(400):
        clusters = np.repeat(np.arange(160 // size), size)
        strata = generator.integers(0, 4, len(clusters))[clusters]
        held = generator.random(len(clusters)) < shares[strata]
        alike = generator.random(len(clusters))[clusters]
        drawn = np.where(generator.random(len(clusters)) < 0.5, alike, generator.random(len(clusters)))
        happened = drawn < rates[strata] + effect * held
        found = stratified(happened.tolist(), held.tolist(), strata.tolist(), clusters.tolist())
        assert found is not None
        covered += found.low <= effect <= found.high
        plain += abs(happened[held].mean() - happened[~held].mean() - effect) < 0.1
    assert covered / 400 > 0.93
    assert plain / 400 < 0.3  # without strata the difference is another one
