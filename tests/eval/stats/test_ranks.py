"""AUROC and risk by coverage: against scikit-learn and by hand, and how often their intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from remedy.eval.stats import aurc, auroc, risk_by_coverage


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 2)), min_size=2, max_size=40))
def test_auroc_is_that_of_scikit_learn_and_within_strata_the_mean_of_events(rows: list[tuple[int, bool, int]]) -> None:
    scores, events, strata = (np.array(column) for column in zip(*rows))
    found = auroc(scores, events.tolist(), list(range(len(rows))))
    if events.all() or not events.any():
        assert found is None
        return
    assert found is not None
    assert found.mean == pytest.approx(roc_auc_score(events, scores))
    assert 0 <= found.low <= found.mean <= found.high <= 1
    within = auroc(scores, events.tolist(), list(range(len(rows))), strata.tolist())
    placed = [
        np.mean([(one > other) + (one == other) / 2 for other in scores[~events & (strata == at)]])
        for one, event, at in zip(scores, events, strata)
        if event and (~events & (strata == at)).any()
    ]
    if not placed:
        assert within is None
    else:
        assert within is not None
        assert within.mean == pytest.approx(np.mean(placed))
        assert within.size == len(placed)


@pytest.mark.parametrize("stratified", [False, True])
def test_intervals_over_clusters_hold_the_truth_nineteen_times_in_twenty(stratified: bool) -> None:
    """Frames of a program share half of what a score says of them."""
    held = 0
    for seed in range(300):
        rng = np.random.default_rng([seed])
        clusters = np.repeat(np.arange(40), 6)
        shared = rng.normal(size=40)[clusters]
        events = rng.random(240) < 0.3
        scores = events + shared + rng.normal(size=240)
        found = auroc(
            scores, events.tolist(), clusters.tolist(), np.tile(np.arange(6), 40).tolist() if stratified else None
        )
        assert found is not None
        held += found.low <= stats.norm.cdf(1 / 2) <= found.high  # the difference of two scores has variance 4
    assert stats.binomtest(held, 300, 0.95).pvalue > 0.01


def test_risk_by_coverage_is_counted_and_equals_are_ordered_by_chance() -> None:
    wrong = [False, True, False, True]
    assert risk_by_coverage(np.array([4.0, 3.0, 2.0, 1.0]), wrong).tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert risk_by_coverage(np.zeros(4), wrong).tolist() == pytest.approx([0.5] * 4)
    assert aurc(np.array([4.0, 1.0, 3.0, 2.0]), wrong).mean == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)


def test_the_area_of_scores_that_say_nothing_is_the_share_of_wrong_ones() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(400) < 0.3
    found = aurc(rng.normal(size=400), wrong.tolist(), list(np.arange(400) // 2))
    assert found.low < wrong.mean() < found.high
    assert aurc(-wrong.astype(float), wrong.tolist()).high < found.low
