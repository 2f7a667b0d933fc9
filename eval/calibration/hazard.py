"""The hazard of a frame: how likely it is the first error, given that all frames before it are right.

A logistic regression on signals, in discrete time: every frame that could be the first error is an outcome (Singer and Willett, "It's
about time: using discrete-time survival analysis to study duration and the timing of events", Journal of Educational Statistics 18,
1993).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from remedy.data_gen.splits import text_hash
from remedy.eval.calibration.signals import Observed

Floats = npt.NDArray[np.float64]
STRENGTHS = (1e-3, 1e-1, 10.0)
"""Inverse strengths of the ridge penalty that are tried."""
FOLDS = 5
LEAST = 1e-9
"""No frame is taken to be surer than this."""


class Hazard(NamedTuple):
    """h = 1 / (1 + exp(-(intercept + weights * (signals - centre) / scale))). `strength`: the inverse penalty that was chosen."""

    signals: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    strength: float

    def of(self, values: Floats) -> Floats:
        """Hazards (K,) of frames with these signals (K, S)."""
        scaled = (np.asarray(values, dtype=float) - self.centre) / self.scale
        odds = self.intercept + scaled @ np.asarray(self.weights)
        found: Floats = np.clip(1 / (1 + np.exp(-np.clip(odds, -50, 50))), LEAST, 1 - LEAST)
        return found


def with_hazards(observed: Observed, hazard: Hazard) -> pd.DataFrame:
    """The frames with their `hazard` and with `right`, the product of 1 - h up to each; 0 from a frame on that the program and the
    states written before rule out, whatever weight so few of them were given in the fit."""
    hazards = hazard.of(observed.frames[list(hazard.signals)].to_numpy())
    against = observed.frames["contradiction"].to_numpy() == 1 if "contradiction" in observed.frames else False
    frames = observed.frames.assign(hazard=hazards, right=np.where(against, 0.0, 1 - hazards))
    return frames.assign(right=frames.groupby("trace")["right"].cumprod())


def fit_hazard(frames: pd.DataFrame, names: Sequence[str]) -> Hazard:
    """Fit on frames that could be the first error (signals, `event`, `cluster`), with the penalty that cross-validation over
    clusters finds best by log loss.

    Raises:
        ValueError: no frame is an error, or all are, or too few clusters hold one.
    """
    events = frames["event"].to_numpy()
    if events.all() or not events.any():
        raise ValueError("a hazard needs frames that are the first error, and frames that are not")
    both = [
        pair for pair in folds(frames["cluster"], events) if all(0 < events[rows].sum() < len(rows) for rows in pair)
    ]
    if len(both) < 2:
        raise ValueError("a hazard needs errors and other frames in more clusters")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        {"logisticregression__C": STRENGTHS},
        scoring="neg_log_loss",
        cv=both,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(frames[list(names)].to_numpy(), events)
    scaler, regression = (step for _, step in search.best_estimator_.steps)
    return Hazard(
        tuple(names),
        tuple(map(float, scaler.mean_)),
        tuple(map(float, scaler.scale_)),
        tuple(map(float, regression.coef_[0])),
        float(regression.intercept_[0]),
        float(search.best_params_["logisticregression__C"]),
    )


def folds(
    clusters: pd.Series, events: npt.NDArray[np.bool_]
) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Rows to fit on and rows to judge on, no cluster on both sides, those that hold an event dealt out evenly. Which cluster is in
    which fold follows from the names alone."""
    holding = set(clusters[events])
    order = sorted(clusters.unique(), key=lambda name: (name not in holding, text_hash(f"fold {name}")))
    of = clusters.map({name: place % FOLDS for place, name in enumerate(order)}).to_numpy()
    return [(np.flatnonzero(of != fold), np.flatnonzero(of == fold)) for fold in range(min(FOLDS, len(order)))]
