"""How far a trace is believed: the stated risk is kept over calibrations, also where traces come in clusters and hazards are noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.eval.calibration.bound import Bound, bound
from remedy.eval.calibration.calibrator import bound_of
from remedy.eval.calibration.hazard import Hazard
from tests.eval.calibration.simulated import simulated

KNOWN = Hazard(("least_probability",), (1.0,), (1.0,), (1.0,), 0.0, 1.0)
NOISE = Hazard(("margin",), (0.0,), (1.0,), (1.0,), -3.0, 1.0)
RISK = 0.05


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=40), st.floats(0.01, 0.99)
)
def test_the_threshold_is_the_lowest_that_conformal_risk_control_allows(
    traces: list[tuple[float | None, int]], risk: float
) -> None:
    scores, clusters = zip(*traces)
    found = bound(scores, clusters)
    count = len(set(clusters))

    def lost(threshold: float) -> float:
        return sum(
            np.mean([score is not None and score > threshold for score, of in traces if of == name])
            for name in set(clusters)
        )

    threshold = found.threshold(risk)
    if math.isinf(threshold) and threshold > 0:
        assert risk * (count + 1) < 1 + 1e-9
        return
    assert (lost(threshold) + 1) / (count + 1) <= risk + 1e-9
    lower = [-math.inf, *(score for score in scores if score is not None and score < threshold)]
    if threshold > -math.inf:
        assert (lost(max(lower)) + 1) / (count + 1) > risk - 1e-9


@pytest.mark.parametrize("hazard", [KNOWN, NOISE], ids=["known", "noise"])
@pytest.mark.parametrize(("traces", "shared"), [(1, 0.0), (6, 2.0)], ids=["alone", "clusters"])
def test_at_the_stated_risk_no_more_traces_hold_a_wrong_frame_that_is_believed(
    hazard: Hazard, traces: int, shared: float
) -> None:
    """Over 400 calibrations of 40 programs, each judged on 40 others: a wrong frame is believed where P is above the threshold."""
    observed = simulated(traces, 400 * 80, True, traces, 12, shared)
    whole = bound_of(observed, hazard)
    number = observed.traces["cluster"].str.split(".").str[1].astype(int).to_numpy()
    of, scores = number[observed.traces["error"] >= 0], np.array(whole.scores)
    lost = []
    for first in range(0, 400 * 80, 80):
        mine, others = ((of >= start) & (of < start + 40) for start in (first, first + 40))
        threshold = Bound(tuple(scores[mine]), (1 / traces,) * int(mine.sum()), 40).threshold(RISK)
        lost.append((scores[others] > threshold).sum() / (40 * traces))
    error = np.std(lost) / math.sqrt(len(lost))
    assert np.mean(lost) <= RISK + 2 * error
    assert np.mean(lost) >= RISK - 1 / 41 - 2 * error - 0.005, "more careful than it has to be"


def test_a_mean_over_executions_of_a_function_is_one_loss() -> None:
    alone = bound([0.9, 0.8, None, None], ["a", "b", "c", "d"])
    together = bound([0.9, 0.8, None, None], ["a", "a", "c", "d"])
    assert alone.weights == (1.0, 1.0)
    assert together.weights == (0.5, 0.5)
    assert (alone.clusters, together.clusters) == (4, 3)
