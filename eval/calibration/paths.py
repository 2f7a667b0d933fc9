"""Whole traces under a calibrator: the hazard of every frame, and the probability that all frames so far are right."""

from __future__ import annotations

import numpy as np
import pandas as pd

from remedy.eval.calibration.hazard import Hazard
from remedy.eval.calibration.observed import Observed


def paths(observed: Observed, hazard: Hazard) -> pd.DataFrame:
    """The frames with their `hazard` and with `right`, the product of 1 - h up to each; 0 from a frame on that the program and the
    states written before rule out, whatever weight so few of them were given in the fit."""
    hazards = hazard.of(observed.frames[list(hazard.signals)].to_numpy())
    against = observed.frames["contradiction"].to_numpy() == 1 if "contradiction" in observed.frames else False
    frames = observed.frames.assign(hazard=hazards, right=np.where(against, 0.0, 1 - hazards))
    return frames.assign(right=frames.groupby("trace")["right"].cumprod())
