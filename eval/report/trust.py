"""Where to stop believing a trace: what foretells its first error, and what a calibrator's word is worth on other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.eval.calibration.calibrator import RISK, Identity, Trust, identity_of
from remedy.eval.calibration.judge import RULES, Judged, allowed, judge, kept, scores
from remedy.eval.calibration.signals import SIGNALS, Observed, common_labels, observe, read_condition
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records.folder import RECORDS
from remedy.eval.records.schema import COMMON, label_columns
from remedy.eval.report.doubt_figures import acceptance, reliability_figure
from remedy.eval.stats import Estimate, aurc, auroc
from remedy.eval.tables.sections import Rows, Section, interval, places, text, title
from remedy.settings import UserError

RISKS = (0.01, 0.05, 0.1, 0.2)
"""Risks at which traces are believed."""
LEAST = 10
"""Programs with an error from which on a row is shown."""

FORETELLS = (
    "AUROC: how often a signal is higher of a first error than of a frame that is right, a half where it says nothing; with 95 % "
    "intervals over clusters of programs. Frames of one number: compared with right frames that stand equally far in other "
    "traces, which is what a signal says beside the frame's number. All frames: with those at any number. The same trace: with "
    "the right frames before it, among which the error is always the last; so whatever grows along a trace, as the frame's number "
    "does, foretells it there, and says nothing. What follows a first error is left out."
)
CLAIM = (
    "Right: share of traces in which every believed frame is right, each cluster of programs counted once, with its 95 % "
    "interval. It is to be at least 1 less the risk, on programs like those of the calibration, over calibrations and not in "
    "each; rows of programs that are unlike show what the claim does not cover. Believed: mean share of a trace's written frames; "
    "of at most the second figure, which is right. First frames alone: the first k frames of every trace, with k by the same "
    "bound; one hazard for all frames believes the same. Hazards as they are: while the product of 1 - h is above 1 less the "
    "risk, which nothing guarantees."
)
RELIABLE = (
    "Frames that could be the first error, in bins that should hold equally many of them: the mean hazard against the rate of "
    "first errors, with Wilson intervals over clusters. On the dashed line hazards are what they say."
)
ACCEPTED = (
    "Left: traces accepted whole, those first that score highest, against the share of them that hold an error; chance accepts "
    "any. Right: frames of traces believed from the first on, against the share of traces in which one of them is wrong, as the "
    "threshold falls."
)
AREAS = (
    "Area under risk by coverage of whole traces, less is better, with 95 % intervals over clusters (jackknife). Chance: the "
    "share of traces with an error. Perfect: all right ones before any wrong one."
)
KINDS = (
    "First errors by what records say of them, and how often their hazard is higher than that of right frames of the same number "
    "(AUROC). By call depth, as the trace itself has it (the entry's own frames stand at 0), and by frame number: first errors "
    "beside those that the hazards expect."
)


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
    return sections


def _observed(path: Path, trust: Trust, evaluations: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Observed]:
    """By diagnostic, the traces of a calibrator's model that are written and decoded as those that it was fitted on."""
    tables: dict[str, list[tuple[pd.DataFrame, pd.DataFrame]]] = {}
    other: tuple[Identity, str] | None = None
    for folder, request in evaluations:
        for slug in request["conditions"]:
            if not (folder / RECORDS / f"{slug}.parquet").exists():
                continue  # the report says what is not evaluated yet
            records, kept = read_condition(folder, request, slug)
            identity = identity_of(request, common_labels(records))
            if identity == trust.identity:
                tables.setdefault(str(records["diagnostic"].iloc[0]), []).append((records, kept))
            elif other is None or sum(identity[key] == trust.identity[key] for key in identity) > sum(
                other[0][key] == trust.identity[key] for key in identity
            ):
                other = identity, request["run"]
    if not tables:
        if other is not None:
            trust.check(*other)
        raise UserError(f"{path}: none of its model's conditions is in the report")
    return {diagnostic: observe(mine) for diagnostic, mine in tables.items()}


def doubt_sections(name: str, judged: Judged) -> list[Section]:
    """The sections on one diagnostic."""
    said = _said(judged)
    sections = [Section(f"{name}: how far traces are believed", rows=believed_table(judged), note=f"{CLAIM} {said}")]
    if judged.traces.loc[judged.traces["error"] >= 0, "cluster"].nunique() < LEAST:
        return sections
    how = f"{name}: what foretells the first error"
    return [
        *sections,
        Section(how, rows=foretelling_table(judged), note=FORETELLS),
        Section(f"{name}: hazards and first errors", draw=partial(reliability_figure, judged), note=RELIABLE),
        Section(f"{name}: what is accepted and how often it is wrong", draw=partial(acceptance, judged), note=ACCEPTED),
        Section(f"{name}: whole traces accepted", rows=area_table(judged), note=AREAS),
        Section(f"{how}, by kind", rows=kind_table(judged), note=KINDS),
    ]


def _said(judged: Judged) -> str:
    """On what the calibrator was fitted, and what is left out here."""
    about = judged.trust.fitted
    parts = [
        f"Fitted on {about['clusters']:,} programs of {', '.join(about['splits'])}, {about['errors']:,} of {about['traces']:,} traces "
        "with an error."
    ]
    low, high = judged.trust.bound.spread(RISK)
    parts.append(
        f"Thresholds are judged by {judged.trust.bound.clusters:,} other programs: at {RISK:.0%}, 95 of 100 such calibrations keep "
        f"between {low:.1%} and {high:.1%} of traces right."
    )
    parts += [f"Left out: {count:,} traces: {why}." for why, count in judged.observed.left_out.items()]
    return " ".join(parts)


def believed_table(judged: Judged) -> Rows:
    """What is believed at each risk, and at 5 % by condition."""
    trust, traces = judged.trust, judged.traces
    risks = allowed(trust, RISKS)
    table = [
        [
            "Programs",
            "Traces",
            "Risk",
            *(f"{one.capitalize()}: {what}" for one in RULES for what in ("right", "believed")),
        ]
    ]
    for risk in risks:
        table.append(["all", _size(judged), f"{risk:.0%}", *_cells(judged, risk)])
    own = [
        name
        for name in label_columns(traces.drop(columns=["error", "written"]))
        if name not in {one.name for one in COMMON}
    ]
    own = [name for name in own if name not in ("run", "condition", "cluster", "split") and traces[name].nunique() > 1]
    if own and RISK in risks:
        fitted = {str(one) for one in trust.fitted["conditions"]}
        for condition, some in traces.groupby("condition", sort=False):
            labels = ", ".join(f"{title(name).lower()} {text(some[name].iloc[0])}" for name in own)
            unlike = "" if condition in fitted else "\nunlike the calibration's"
            mine = judged.some(traces["condition"] == condition)
            table.append([labels + unlike, _size(mine), f"{RISK:.0%}", *_cells(mine, RISK)])
    return table


def _size(judged: Judged) -> str:
    clusters = judged.traces["cluster"].nunique()
    return f"{len(judged.traces):,}" + (f"\n{clusters:,} clusters" if clusters < len(judged.traces) else "")


def _cells(judged: Judged, risk: float) -> list[str]:
    found: list[str] = []
    for name in RULES:
        one = kept(judged, name, risk)
        found += [_share(one.right), f"{one.believed:.0%}\nof {one.most:.0%}"]
    return found


def foretelling_table(judged: Judged) -> Rows:
    """AUROC of every signal and of the calibrated hazard, by what a first error is compared with."""
    frames = judged.observed.at_risk
    compared: dict[str, pd.Series | None] = {
        "frames of one number": frames["place"],
        "all frames": None,
        "the same trace": frames["trace"],
    }
    names = [name for name in SIGNALS if not frames[name].isna().any() and frames[name].nunique() > 1]
    table = [["Compared with", "First errors", "Hazard", *(name.replace("_", " ").capitalize() for name in names)]]
    for how, strata in compared.items():
        areas = [
            auroc(
                frames[name].to_numpy(),
                frames["event"].tolist(),
                frames["cluster"].tolist(),
                None if strata is None else strata.tolist(),
            )
            for name in ("hazard", *names)
        ]
        table.append([how, str(areas[0].size) if areas[0] else "0", *map(_share, areas)])
    return table


def area_table(judged: Judged) -> Rows:
    """The area under risk by coverage of every score."""
    wrong, clusters = (judged.traces["error"] >= 0).tolist(), judged.traces["cluster"].tolist()
    found = {name: aurc(values, wrong, clusters) for name, values in scores(judged).items()}
    share = sum(wrong) / len(wrong)
    perfect = aurc(-(judged.traces["error"] >= 0).to_numpy().astype(float), wrong).mean
    table = [["Accepted first", "Area"], *([name, _share(one)] for name, one in found.items())]
    return [*table, ["chance", f"{share:.1%}"], ["perfect", f"{perfect:.1%}"]]


def kind_table(judged: Judged) -> Rows:
    """First errors by role, operation, type of value, call depth and frame number."""
    frames = judged.observed.at_risk
    about = judged.traces
    table = [["By", "Kind", "First errors", "AUROC", "Expected"]]
    for column in ("first_error_role", "operation", "value_type"):
        kind = about[column].to_numpy()[frames["trace"]]
        counts = about.loc[about["error"] >= 0, column].value_counts()
        for value in [one for one in counts.index if one and counts[one] >= LEAST]:
            some = frames[~frames["event"] | (kind == value)]
            area = auroc(
                some["hazard"].to_numpy(), some["event"].tolist(), some["cluster"].tolist(), some["place"].tolist()
            )
            table.append(
                [title(column).replace("First error role", "Role"), str(value), str(counts[value]), _share(area), ""]
            )
    table += _along("Call depth", frames, frames["depth"]) if frames["depth"].nunique() > 1 else []
    return table + _along("Frame number", frames, frames["place"] + 1)


def _along(name: str, frames: pd.DataFrame, values: pd.Series) -> Rows:
    """First errors in frames of these values, in stretches of which each is twice as long as the one before."""
    table = []
    for low, some in frames.groupby(values.dropna().map(lambda value: 2 ** int(value).bit_length() // 2)):
        area = auroc(
            some["hazard"].to_numpy(), some["event"].tolist(), some["cluster"].tolist(), some["place"].tolist()
        )
        events = int(some["event"].sum())
        shown = _share(area) if events >= LEAST else ""
        table.append([name, f"from {low}", str(events), shown, f"{some['hazard'].sum():.1f}"])
    return table


def _share(found: Estimate | None) -> str:
    if found is None:
        return ""
    return f"{100 * found.mean:.{places(found.low, found.high)}f} %\n{interval(found.low, found.high)}"
