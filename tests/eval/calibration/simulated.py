"""Traces whose hazards are known, since they are drawn from them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from remedy.eval.calibration.signals import SIGNALS, Observed

LABELS = {
    "format": "cwm",
    "string_encoding": "plain",
    "locals": "full",
    "spacing": 1.0,
    "answer_only": False,
    "forcing": "free",
}


def simulated(
    seed: int, clusters: int, informed: bool = True, traces: int = 1, length: int = 20, shared: float = 0.0
) -> Observed:
    """Traces of so many clusters, each with as many `traces` of up to `length` frames. The log-odds of a frame's hazard are its signal
    `least_probability` less 1, if `informed`; else all are alike, and signals are noise. `shared`: how far the frames of a cluster
    are of one difficulty that no signal shows."""
    rng = np.random.default_rng([seed, clusters, traces])
    count = clusters * traces
    lengths = rng.integers(length // 2, length + 1, count)
    trace = np.repeat(np.arange(count), lengths)
    place = np.concatenate([np.arange(one) for one in lengths])
    noise = {name: rng.normal(size=len(trace)) for name in SIGNALS if name != "call_depth"}
    depth = place // 4 % 3
    doubt = rng.normal(-3.0, 2.0, len(trace))
    hidden = np.repeat(rng.normal(size=clusters), traces)[trace] * shared
    hazard = 1 / (1 + np.exp(-(doubt - 1 + hidden))) if informed else np.full(len(trace), 0.05)
    frames = pd.DataFrame({**noise, "cut": np.nan, "least_probability": doubt, "frame_number": np.log1p(place)})
    frames = frames.assign(
        trace=trace,
        place=place,
        depth=depth,
        call_depth=np.log1p(depth),
        true=hazard,
        wrong=rng.random(len(trace)) < hazard,
    )
    first = frames[frames["wrong"]].groupby("trace")["place"].first().reindex(range(count), fill_value=-1).to_numpy()
    error = first[trace]
    frames = frames.assign(at_risk=(place <= error) | (error < 0), event=place == error).drop(columns="wrong")
    about = pd.DataFrame(
        {
            "run": "simulated",
            "condition": "free",
            "cluster": [f"{seed}.{number // traces}" for number in range(count)],
            "split": "validation",
            "first_error_role": np.where(first >= 0, "state", ""),
            "operation": "",
            "value_type": "",
            "error": first,
            "written": lengths,
        }
    ).assign(**LABELS)
    return Observed(frames, about, {})
