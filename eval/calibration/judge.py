"""A calibrator on programs that it was not fitted on: does the stated risk hold, and how much is believed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from remedy.eval.calibration.calibrator import Trust
from remedy.eval.calibration.hazard import with_hazards
from remedy.eval.calibration.signals import Observed
from remedy.eval.stats import Estimate, mean, rate

BELIEVED, BY_NUMBER, BY_HAZARD = "believed", "first frames alone", "hazards as they are"
RULES = (BELIEVED, BY_NUMBER, BY_HAZARD)
"""Ways to say which frames of a trace to believe: as calibrated; the first k frames of any trace, k by the same bound; and, without any
bound, while the product of 1 - h is above 1 - risk."""
SEEN = "the calibrator was fitted on its program"
UNTOLD = "a signal that the calibrator needs cannot be told of it"


class Judged(NamedTuple):
    """Traces of a calibrator's model: their frames with `hazard`, `right` (the product of 1 - h up to each) and `early` (minus the
    place)."""

    trust: Trust
    observed: Observed

    @property
    def frames(self) -> pd.DataFrame:
        return self.observed.frames

    @property
    def traces(self) -> pd.DataFrame:
        return self.observed.traces

    def some(self, kept: pd.Series) -> Judged:
        """The traces for which `kept` is true."""
        return Judged(self.trust, self.observed.some(kept))


class Kept(NamedTuple):
    """Result of a rule. `right`: the share of traces in which all believed frames are right, each cluster counted once; `believed`:
    the share of a trace's written frames that are; `most`: the same if exactly the right ones were."""

    right: Estimate
    believed: float
    most: float


def judge(trust: Trust, observed: Observed) -> Judged:
    """The calibrator on traces of its own model; those of programs that it was fitted on are left out and counted."""
    seen = observed.traces["cluster"].isin(trust.programs)
    lacking = observed.frames[list(trust.hazard.signals)].isna().any(axis=1)
    untold = pd.Series(np.isin(np.arange(len(seen)), observed.frames.loc[lacking, "trace"].unique()), index=seen.index)
    left_out = {**observed.left_out, SEEN: int(seen.sum()), UNTOLD: int((untold & ~seen).sum())}
    mine = observed.some(~seen & ~untold)
    frames = with_hazards(mine, trust.hazard)
    frames = frames.assign(early=-frames["place"].astype(float))
    return Judged(trust, Observed(frames, mine.traces, {why: count for why, count in left_out.items() if count}))


def rule(trust: Trust, name: str, risk: float) -> tuple[str, float]:
    """A rule at a stated risk: which column of frames has to be above which value."""
    if name == BY_NUMBER:
        return "early", trust.by_number.threshold(risk)
    return "right", trust.bound.threshold(risk) if name == BELIEVED else 1 - risk


def kept(judged: Judged, name: str, risk: float) -> Kept:
    """Return what a rule comes to at a stated risk.

    Raises:
        ValueError: there are no traces.
    """
    column, threshold = rule(judged.trust, name, risk)
    believed = judged.frames[column].to_numpy() > threshold
    trace = judged.frames["trace"].to_numpy()
    right = (judged.frames["at_risk"] & ~judged.frames["event"]).to_numpy()
    wrong = np.bincount(trace[believed & ~right], minlength=len(judged.traces)) > 0
    share, truly = (np.bincount(trace, weights=one) / np.bincount(trace) for one in (believed, right))
    clusters = judged.traces["cluster"].tolist()
    return Kept(by_cluster(~wrong, clusters), *(by_cluster(one, clusters).mean for one in (share, truly)))


def by_cluster(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_], clusters: Sequence[str]) -> Estimate:
    """The mean over clusters of their means, with its interval: Wilson's where each is right or wrong."""
    means = pd.Series(values, dtype=float).groupby(pd.Series(clusters)).mean()
    if means.isin([0.0, 1.0]).all():
        return rate((means > 0.5).tolist())
    return mean(means.tolist())


def scores(judged: Judged) -> Mapping[str, npt.NDArray[np.float64]]:
    """Return what whole traces can be accepted by, a value for each: the calibrator's P at the end, what the model's own
    probabilities say, where all are known, and the length alone."""
    by_trace = judged.frames.groupby("trace")
    own = -np.logaddexp(0, judged.frames["frame_probability"])
    found = {
        "calibrated": by_trace["right"].last().to_numpy(),
        "probability of the trace": own.groupby(judged.frames["trace"]).sum().to_numpy(),
        "least likely token": -by_trace["least_probability"].max().to_numpy(),
        "number of frames alone": -by_trace.size().to_numpy().astype(float),
    }
    known = {"calibrated", "number of frames alone"} if own.isna().any() else set(found)
    return {name: values for name, values in found.items() if name in known}


def reliability(frames: pd.DataFrame, bins: int = 8) -> list[tuple[float, Estimate]]:
    """Mean hazard beside the rate of first errors of frames at risk, in bins that should hold as many errors each."""
    ordered = frames.sort_values("hazard", kind="stable")
    total = float(ordered["hazard"].sum())
    number = np.minimum((ordered["hazard"].cumsum() / total * bins).to_numpy().astype(int), bins - 1)
    found = []
    for _, some in ordered.groupby(number):
        found.append((float(some["hazard"].mean()), rate(some["event"].tolist(), some["cluster"].tolist())))
    return found


def allowed(trust: Trust, risks: Sequence[float]) -> list[float]:
    """The risks at which anything can be believed at all."""
    return [risk for risk in risks if not (math.isinf(found := trust.bound.threshold(risk)) and found > 0)]
