"""Whole traces under a calibrator: the hazard of every frame, and the probability that all frames so far are right."""

from __future__ import annotations

import pandas as pd

from remedy.eval.trust.hazard import Hazard
from remedy.eval.trust.observed import Observed


def paths(observed: Observed, hazard: Hazard) -> pd.DataFrame:
    """The frames with their `hazard` and with `right`, the product of 1 - h up to each."""
    hazards = hazard.of(observed.frames[list(hazard.signals)].to_numpy())
    frames = observed.frames.assign(hazard=hazards, right=1 - hazards)
    return frames.assign(right=frames.groupby("trace")["right"].cumprod())
