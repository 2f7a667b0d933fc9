"""Calibrators: how far traces are believed, what foretells a first error, and what is accepted against how often it is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from remedy.eval.calibration.calibrator import RISK, Identity, Trust, identity_of
from remedy.eval.calibration.judge import (
    BELIEVED,
    BY_NUMBER,
    RULES,
    Judged,
    allowed,
    by_cluster,
    judge,
    kept,
    reliability,
    scores,
)
from remedy.eval.calibration.signals import SIGNALS, Observed, common_labels, observe, read_condition
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.folder import RECORDS
from remedy.eval.records.schema import COMMON, label_columns
from remedy.eval.report.notes import NOTES
from remedy.eval.stats import Estimate, aurc, auroc, risk_by_coverage
from remedy.eval.tables.sections import Rows, Section, rated, text, title
from remedy.settings import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP = "When to doubt"
RISKS = (0.01, 0.05, 0.1, 0.2)
"""Risks at which traces are believed."""
LEAST = 10
"""Programs with an error from which on more than one table is shown."""
STEPS = 60
"""Thresholds that a line of believed frames goes through."""
GREY = "0.45"


def doubt(paths: Sequence[Path], evaluations: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[Section]:
    """The sections of calibrators, by their files. `evaluations`: folders, and what each holds.

    Raises:
        UserError: a calibrator is of none of the evaluations, or of no program that it was not fitted on; or a file is damaged.
    """
    sections: list[Section] = []
    for path in dict.fromkeys(paths):
        trust = Trust.load(path)
        for diagnostic, observed in _observed(path, trust, evaluations).items():
            judged = judge(trust, observed)
            if judged.traces.empty:
                why = ", ".join(f"{said} ({count})" for said, count in judged.observed.left_out.items())
                raise UserError(f"{path}: nothing to judge it by: {why}: evaluate another split")
            name = DIAGNOSTICS[diagnostic].title if diagnostic in DIAGNOSTICS else diagnostic.capitalize()
            sections += doubt_sections(name if len(paths) == 1 else f"{name}, {path.stem}", judged)
    return [section._replace(group=GROUP) for section in sections]


def _observed(path: Path, trust: Trust, evaluations: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Observed]:
    """By diagnostic, the traces of a calibrator's model that are written and decoded as those that it was fitted on."""
    tables: dict[str, list[tuple[pd.DataFrame, pd.DataFrame]]] = {}
    others: list[tuple[Identity, str]] = []
    for folder, request in evaluations:
        for slug in request["conditions"]:
            if not (folder / RECORDS / f"{slug}.parquet").exists():
                continue  # the report says what is not evaluated yet
            records, written = read_condition(folder, request, slug)
            identity = identity_of(request, common_labels(records))
            if identity == trust.identity:
                tables.setdefault(str(records["diagnostic"].iloc[0]), []).append((records, written))
            else:
                others.append((identity, request["run"]))
    if not tables:
        if others:  # the nearest one's difference is named
            trust.check(*max(others, key=lambda one: sum(one[0][key] == trust.identity[key] for key in one[0])))
        raise UserError(f"{path}: none of its model's conditions is in the report")
    return {diagnostic: observe(mine) for diagnostic, mine in tables.items()}


def doubt_sections(name: str, judged: Judged) -> list[Section]:
    """The sections on one diagnostic."""
    rows = believed_table(judged)
    sections = [Section(f"{name}: how far traces are believed", rows=rows, note=f"{NOTES['believed']} {_said(judged)}")]
    if judged.traces.loc[judged.traces["error"] >= 0, "cluster"].nunique() < LEAST:
        return sections
    accepted = f"{name}: what is accepted and how often it is wrong"
    foretold = foretelling_table(judged)
    return [
        *sections,
        Section(f"{name}: what foretells the first error", rows=foretold, note=NOTES["foretold"]),
        Section(f"{name}: hazards and first errors", draw=partial(reliability_figure, judged), note=NOTES["reliable"]),
        Section(accepted, draw=partial(acceptance, judged), note=NOTES["accepted"]),
        Section(f"{name}: whole traces accepted", rows=area_table(judged)),
    ]


def _said(judged: Judged) -> str:
    """On what the calibrator was fitted, and what is left out here."""
    about, bound = judged.trust.fitted, judged.trust.bound
    low, high = bound.spread(RISK)
    said = (
        f"Fitted on {about['clusters']:,} programs of {', '.join(about['splits'])}, {about['errors']:,} of {about['traces']:,} traces "
        f"with an error. Thresholds are judged by {bound.clusters:,} other programs: at {RISK:.0%}, 95 of 100 such "
        f"calibrations keep between {low:.1%} and {high:.1%} of traces right."
    )
    return " ".join([said, *(f"Left out: {n:,} traces: {why}." for why, n in judged.observed.left_out.items())])


def believed_table(judged: Judged) -> Rows:
    """Beliefs at each risk, and at 5 % by condition."""
    traces, risks = judged.traces, allowed(judged.trust, RISKS)
    heads = (f"{one.capitalize()}: {what}" for one in RULES for what in ("right", "believed"))
    rows = [["Programs", "Traces", "Risk", *heads], *(["all", *_cells(judged, risk)] for risk in risks)]
    shared = {"error", "written", *(one.name for one in COMMON)}
    own = [name for name in label_columns(traces) if name not in shared and traces[name].nunique() > 1]
    if own and RISK in risks:
        fitted = {str(one) for one in judged.trust.fitted["conditions"]}
        for condition, some in traces.groupby("condition", sort=False):
            labels = ", ".join(f"{title(name).lower()} {text(some[name].iloc[0])}" for name in own)
            unlike = "" if condition in fitted else "\nunlike the calibration's"
            rows.append([labels + unlike, *_cells(judged.some(traces["condition"] == condition), RISK)])
    return rows


def _cells(judged: Judged, risk: float) -> list[str]:
    """The number of traces, the risk, and what every rule comes to at it."""
    count, clusters = len(judged.traces), judged.traces["cluster"].nunique()
    found = [f"{count:,}" + (f"\n{clusters:,} clusters" if clusters < count else ""), f"{risk:.0%}"]
    for name in RULES:
        one = kept(judged, name, risk)
        found += [_share(one.right), f"{one.believed:.0%}\nof {one.most:.0%}"]
    return found


def foretelling_table(judged: Judged) -> Rows:
    """AUROC of every signal and of the calibrated hazard, by what a first error is compared with."""
    frames = judged.observed.at_risk
    compared = {"frames of one number": frames["place"], "all frames": None, "the same trace": frames["trace"]}
    names = [name for name in SIGNALS if not frames[name].isna().any() and frames[name].nunique() > 1]
    rows = [["Compared with", "First errors", "Hazard", *(name.replace("_", " ").capitalize() for name in names)]]
    events, clusters = frames["event"].tolist(), frames["cluster"].tolist()
    for how, strata in compared.items():
        within = None if strata is None else strata.tolist()
        areas = [auroc(frames[name].to_numpy(), events, clusters, within) for name in ("hazard", *names)]
        rows.append([how, str(areas[0].size) if areas[0] else "0", *map(_share, areas)])
    return rows


def area_table(judged: Judged) -> Rows:
    """The area under risk by coverage of every score."""
    wrong, clusters = (judged.traces["error"] >= 0).tolist(), judged.traces["cluster"].tolist()
    found = {name: aurc(values, wrong, clusters) for name, values in scores(judged).items()}
    perfect = aurc(-(judged.traces["error"] >= 0).to_numpy().astype(float), wrong).mean
    rows = [["Accepted first", "Area"], *([name, _share(one)] for name, one in found.items())]
    return [*rows, ["chance", f"{sum(wrong) / len(wrong):.1%}"], ["perfect", f"{perfect:.1%}"]]


def _share(found: Estimate | None) -> str:
    return rated(*found[:3]) if found is not None else ""


def reliability_figure(judged: Judged) -> Figure:
    """The rate of first errors by hazard, both on a scale of powers."""
    from matplotlib.ticker import FuncFormatter

    from remedy.eval.tables import plotting

    found = reliability(judged.observed.at_risk)
    figure, (axis,) = plotting.panels(1)
    hazards = [hazard for hazard, _ in found]
    rates = [max(one.mean, 1e-5) for _, one in found]
    least = min(0.5 * min([*hazards, *(one.mean for _, one in found if one.mean > 0)]), 0.01)
    axis.plot([least, 1], [least, 1], "--", color=GREY, lw=1, label="as it says")
    lows = [max(one.low, least) for _, one in found]
    axis.vlines(hazards, lows, [one.high for _, one in found], color=plotting.colour(0), alpha=0.5)
    axis.plot(hazards, rates, "o", color=plotting.colour(0), label="frames")
    axis.set(xscale="log", yscale="log", xlim=(least, 1.1), ylim=(least, 1.1))
    axis.set(xlabel="hazard, mean of a bin", ylabel="frames that are the first error")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    plotting.legend(figure, [axis])
    return figure


def acceptance(judged: Judged) -> Figure:
    """Risk by coverage, of whole traces and of frames from the first on."""
    from matplotlib.ticker import FuncFormatter

    from remedy.eval.tables import plotting

    figure, (whole, frames) = plotting.panels(2, shared=False)
    wrong = (judged.traces["error"] >= 0).to_numpy()
    coverage = np.arange(1, len(wrong) + 1) / len(wrong)
    for number, (name, values) in enumerate(scores(judged).items()):
        label = f"{name}: area {aurc(values, wrong.tolist()).mean:.1%}"
        whole.plot(coverage, risk_by_coverage(values, wrong.tolist()), color=plotting.colour(number), label=label)
    whole.axhline(wrong.mean(), color=GREY, ls="--", lw=1, label=f"chance: {wrong.mean():.1%}")
    whole.plot(coverage, risk_by_coverage(-wrong.astype(float), wrong.tolist()), color=GREY, ls=":", label="perfect")
    whole.set(xlabel="traces accepted", ylabel="accepted traces with an error", title="whole traces")
    for number, (name, column) in enumerate({BELIEVED: "right", BY_NUMBER: "early"}.items()):
        label = name.replace(BELIEVED, "calibrated, from the first on")
        frames.plot(*zip(*_believed(judged, column)), color=plotting.colour(4 * number), label=label)
    frames.set(xlabel="frames believed, of a trace", ylabel="traces with a wrong frame believed")
    frames.set_title("frames from the first on")
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
        kept_ = values >= threshold
        share = np.bincount(trace, weights=kept_) / sizes
        held = np.bincount(trace, weights=kept_ & wrong) > 0
        found.append((by_cluster(share, clusters).mean, by_cluster(held, clusters).mean))
    return found
