"""Calibrators of simulated traces: hazards are recovered, noise is found to be noise, and what cannot be learnt from is one line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from remedy.data_gen.context_window import Memory
from remedy.eval.calibration.calibrator import Evaluated, Trust, fit, identity_of
from remedy.eval.calibration.hazard import with_hazards
from remedy.eval.calibration.signals import Observed
from remedy.eval.records.generations import FrameProbability
from remedy.settings import UserError
from tests.eval.calibration.simulated import LABELS, simulated

IDENTITY = {"weights": "w", "tokenizer_fingerprint": "t", "memory": None, **LABELS}


def fitted(observed: Observed) -> Trust:
    return fit(Evaluated("simulated", IDENTITY, observed), "results/simulated")


@pytest.fixture(scope="module")
def informed() -> Trust:
    return fitted(simulated(0, 300, traces=2))


def test_hazards_are_recovered_on_programs_that_were_not_fitted_on(informed: Trust) -> None:
    frames = with_hazards(simulated(1, 600), informed.hazard)
    at_risk = frames[frames["at_risk"]]
    assert np.corrcoef(at_risk["hazard"], at_risk["true"])[0, 1] > 0.97
    bins = at_risk.groupby(np.digitize(at_risk["hazard"], [0.01, 0.05, 0.2]))
    for _, some in bins:
        spread = np.sqrt((some["true"] * (1 - some["true"])).sum()) / len(some)
        assert some["event"].mean() == pytest.approx(some["hazard"].mean(), abs=3 * spread + 0.01)


def test_a_calibrator_of_noise_believes_no_more_than_the_frames_number_allows() -> None:
    trust = fitted(simulated(3, 400, informed=False, traces=2))
    new = simulated(4, 500, informed=False)
    frames = with_hazards(new, trust.hazard)
    threshold, number = trust.bound.threshold(0.2), trust.by_number.threshold(0.2)
    believed, first = (frames["right"] > threshold).mean(), (-frames["place"] > number).mean()
    assert believed == pytest.approx(first, abs=0.08)
    assert frames["hazard"].std() < 0.02


def test_a_calibrator_is_the_same_when_it_is_read_again_and_follows_a_trace(informed: Trust, tmp_path: Path) -> None:
    informed.save(tmp_path / "trust.json")
    trust = Trust.load(tmp_path / "trust.json")
    assert trust == informed
    follower = trust.follow(risk=0.1)
    beliefs = [
        follower.take(FrameProbability(place, 5, -0.1, least, 1.0, 0.0, 1.0), contradicts=False)
        for place, least in enumerate([-1e-4, -1e-3, -3.0, -1e-4])
    ]
    assert np.prod([1 - one.hazard for one in beliefs]) == pytest.approx(beliefs[-1].right)
    assert all(one.right >= other.right for one, other in pairwise(beliefs))
    assert [one.believed for one in beliefs] == [one.right > follower.threshold for one in beliefs]


def test_nothing_is_believed_from_a_frame_on_that_contradicts_what_was_written(informed: Trust) -> None:
    """Followed or judged, and however sure the model was: calibrations may hold too few of them to weigh."""
    sure = FrameProbability(0, 5, -1e-6, -1e-6, 20.0, 0.0, 1.0)
    follower = informed.follow(risk=0.2)
    found = [follower.take(sure._replace(place=place), contradicts=place == 1) for place in range(3)]
    assert [one.believed for one in found] == [True, False, False]
    assert [one.right > 0 for one in found] == [True, False, False]
    observed = simulated(6, 200)
    first = observed.frames.groupby("trace").cumcount() == 0
    frames = with_hazards(
        observed._replace(frames=observed.frames.assign(contradiction=first.astype(float))), informed.hazard
    )
    assert (frames["right"] == 0).all()


def test_a_memory_is_one_thing_however_it_is_said() -> None:
    """By the configuration of a checkpoint, as simulated, or by the label of a condition."""
    checkpoint = {"weights": "w", "tokenizer_fingerprint": "t"}
    for said, label, expected in (
        (None, "all", None),
        (4, "4", 4),
        ({"frames": 4, "open_calls": True}, "4 with open calls", "4 with open calls"),
    ):
        memory = None if said is None else Memory.model_validate(said)
        for data, labels in (({"memory": said}, {}), ({"memory": memory}, {}), ({"memory": 9}, {"memory": label})):
            found = identity_of({"checkpoint": checkpoint, "data": data}, {**LABELS, **labels})
            assert found == {**IDENTITY, "memory": expected}


def test_calibrators_of_others_and_risks_that_no_bound_allows_are_one_line(informed: Trust) -> None:
    informed.check(IDENTITY, "runs/x")
    for key, value in {
        "weights": "v",
        "tokenizer_fingerprint": "s",
        "format": "repl",
        "forcing": "guided",
        "memory": 2,
    }.items():
        with pytest.raises(UserError, match=rf"is not of runs/x .*: it is of {key} .* and not {value}"):
            informed.check({**IDENTITY, key: value}, "runs/x")
    with pytest.raises(UserError, match=r"risk 0\.001: with \d+ programs .* it takes 999"):
        informed.follow(risk=0.001)
    with pytest.raises(UserError, match="risk 1: between 0 and 1"):
        informed.follow(risk=1)
    with pytest.raises(UserError, match=r"needs contradiction, which cannot be told"):
        informed.follow().take(FrameProbability(0, 5, -0.1, -0.1, 1.0, 0.0, 1.0))


def test_what_cannot_be_learnt_from_is_one_line() -> None:
    observed = simulated(5, 200)
    error = observed.traces["error"]
    for kept, said in (
        (error < 0, "all .* traces are right, so that no error can be learnt"),
        (error == 0, "all .* traces are wrong in their first frame"),
        (error.index < 20, "20 programs .*: a calibrator takes 40"),
        ((error < 0) | (error.index < 20), "programs with an error in a half of all: a calibrator takes 10"),
    ):
        with pytest.raises(UserError, match=rf"^results/simulated: .*{said}"):
            fitted(observed.some(pd.Series(kept)))
