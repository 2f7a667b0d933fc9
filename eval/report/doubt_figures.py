"""Figures of doubt: hazards against first errors, and what is accepted against how often it is wrong."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from remedy.eval.calibration.judge import BELIEVED, BY_NUMBER, Judged, by_cluster, reliability, scores
from remedy.eval.stats import aurc, risk_by_coverage
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS

GREY = "0.45"
STEPS = 60
"""Thresholds that a line of believed frames goes through."""


def reliability_figure(judged: Judged) -> Figure:
    """The rate of first errors by hazard, both on a scale of powers."""
    found = reliability(judged.observed.at_risk)
    figure = Figure(figsize=(5.2, 4.4))
    axis = figure.subplots()
    hazards = [hazard for hazard, _ in found]
    rates = [max(one.mean, 1e-5) for _, one in found]
    least = min(0.5 * min([*hazards, *(one.mean for _, one in found if one.mean > 0)]), 0.01)
    axis.plot([least, 1], [least, 1], "--", color=GREY, lw=1, label="as it says")
    lows = [max(one.low, least) for _, one in found]
    axis.vlines(hazards, lows, [one.high for _, one in found], color=COLOURS[0], alpha=0.5)
    axis.plot(hazards, rates, "o", color=COLOURS[0], label="frames")
    axis.set(xscale="log", yscale="log", xlim=(least, 1.1), ylim=(least, 1.1))
    axis.set(xlabel="hazard, mean of a bin", ylabel="frames that are the first error")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    plotting.legend(figure, [axis])
    return figure


def acceptance(judged: Judged) -> Figure:
    """Risk by coverage, of whole traces and of frames from the first on."""
    figure = Figure(figsize=(10, 4))
    whole, frames = figure.subplots(1, 2)
    wrong = (judged.traces["error"] >= 0).to_numpy()
    coverage = np.arange(1, len(wrong) + 1) / len(wrong)
    for number, (name, values) in enumerate(scores(judged).items()):
        label = f"{name}: area {aurc(values, wrong.tolist()).mean:.1%}"
        whole.plot(coverage, risk_by_coverage(values, wrong.tolist()), color=COLOURS[number], label=label)
    whole.axhline(wrong.mean(), color=GREY, ls="--", lw=1, label=f"chance: {wrong.mean():.1%}")
    whole.plot(coverage, risk_by_coverage(-wrong.astype(float), wrong.tolist()), color=GREY, ls=":", label="perfect")
    whole.set(xlabel="traces accepted", ylabel="accepted traces with an error", title="whole traces")
    for number, (name, column) in enumerate({BELIEVED: "right", BY_NUMBER: "early"}.items()):
        points = _believed(judged, column)
        frames.plot(
            *zip(*points), color=COLOURS[4 * number], label=name.replace(BELIEVED, "calibrated, from the first on")
        )
    frames.set(
        xlabel="frames believed, of a trace",
        ylabel="traces with a wrong frame believed",
        title="frames from the first on",
    )
    for axis in (whole, frames):
        plotting.rates(axis)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    plotting.legend(figure, [whole, frames])
    return figure


def _believed(judged: Judged, column: str) -> list[tuple[float, float]]:
    """Mean share of a trace's frames that are believed, and share of traces in which one of them is wrong, as the threshold falls."""
    values, trace = judged.frames[column].to_numpy(), judged.frames["trace"].to_numpy()
    wrong = ~(judged.frames["at_risk"] & ~judged.frames["event"]).to_numpy()
    sizes, clusters = np.bincount(trace), judged.traces["cluster"].tolist()
    found = []
    for threshold in np.quantile(values, np.linspace(1, 0, STEPS)):
        kept = values >= threshold
        share = np.bincount(trace, weights=kept) / sizes
        held = np.bincount(trace, weights=kept & wrong) > 0
        found.append((by_cluster(share, clusters).mean, by_cluster(held, clusters).mean))
    return found
