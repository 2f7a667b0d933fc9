"""Calibrators on programs that they were not fitted on: what they claim holds; of programs that are unlike it is seen not to."""

from __future__ import annotations

import numpy as np
import pytest

from remedy.eval.calibration.calibrator import Trust
from remedy.eval.calibration.judge import BELIEVED, BY_HAZARD, BY_NUMBER, SEEN, UNTOLD, judge, kept, reliability, scores
from remedy.eval.stats import aurc
from tests.eval.calibration.simulated import simulated
from tests.eval.calibration.test_fit import fitted


@pytest.fixture(scope="module")
def trust() -> Trust:
    return fitted(simulated(20, 400))


@pytest.mark.parametrize("risk", [0.05, 0.2])
def test_at_the_stated_risk_other_programs_are_right_as_far_as_they_are_believed(trust: Trust, risk: float) -> None:
    judged = judge(trust, simulated(21, 3000))
    low, high = trust.bound.spread(risk)
    found = {name: kept(judged, name, risk) for name in (BELIEVED, BY_NUMBER, BY_HAZARD)}
    for name in (BELIEVED, BY_NUMBER):
        assert found[name].right.mean >= low - 0.01
    assert found[BELIEVED].right.mean <= high + 0.01
    assert (
        found[BY_HAZARD].right.mean >= 1 - risk - 0.02
    )  # these hazards are true, and a trace stops before P is so low
    assert found[BY_NUMBER].believed < found[BELIEVED].believed < found[BELIEVED].most


def test_programs_that_are_unlike_are_believed_wrongly_more_often_and_it_is_seen(trust: Trust) -> None:
    unlike = simulated(22, 1000, shared=3.0)
    found = kept(judge(trust, unlike), BELIEVED, 0.05).right
    assert found.high < 0.95


def test_programs_that_a_calibrator_was_fitted_on_are_left_out_and_counted(trust: Trust) -> None:
    mixed = simulated(20, 400)
    assert judge(trust, mixed).traces.empty
    assert judge(trust, mixed).observed.left_out == {SEEN: 400}
    new = simulated(23, 50)
    new.frames.loc[new.frames["trace"] == 3, "margin"] = np.nan
    judged = judge(trust, new)
    assert judged.observed.left_out == {UNTOLD: 1}
    assert len(judged.traces) == 49


def test_hazards_are_rates_and_whole_traces_are_accepted_better_by_them_than_by_chance(trust: Trust) -> None:
    judged = judge(trust, simulated(24, 1500))
    for hazard, found in reliability(judged.observed.at_risk):
        assert found.low - 0.02 <= hazard <= found.high + 0.02
    wrong = (judged.traces["error"] >= 0).to_numpy()
    areas = {name: aurc(values, wrong.tolist()).mean for name, values in scores(judged).items()}
    assert areas["calibrated"] < areas["number of frames alone"] < wrong.mean() + 0.02
    assert areas["calibrated"] < areas["probability of the trace"]
