"""Fit a calibrator on an evaluation whose truth is known: hazards on one half of its programs, and how far to believe on the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from remedy.data_gen.splits import text_hash
from remedy.eval.calibration.bound import Bound, bound
from remedy.eval.calibration.calibrator import RISK, Identity, Trust, identity_of
from remedy.eval.calibration.hazard import Hazard, cross_validated, fit_hazard, loss
from remedy.eval.calibration.observed import (
    FED,
    Observed,
    common_labels,
    conditions_named,
    observe,
    read_condition,
)
from remedy.eval.calibration.paths import paths
from remedy.eval.calibration.signals import NUMBER, SIGNALS
from remedy.eval.records.folder import read_request
from remedy.eval.stats import auroc
from remedy.settings import ConfigError, UserError

LEAST_CLUSTERS = 40
"""Programs that a calibrator is fitted on at least: half of them judge, and of 20 one may err at a risk of 5 %."""
LEAST_ERRORS = 10
"""Programs with an error, in each half, at least."""


class Evaluated(NamedTuple):
    """Conditions of one evaluation that are written and decoded alike."""

    run: str
    identity: Identity
    observed: Observed


def read_evaluated(folder: Path, words: str = "") -> Evaluated:
    """The traces of an evaluation's conditions. `words`: parts of their names that all of them have.

    Raises:
        UserError: a file is damaged or missing, there is no such condition, or they are not written and decoded alike.
    """
    request = read_request(folder)
    tables = [read_condition(folder, request, slug) for slug in conditions_named(folder, request, words)]
    labels = [common_labels(records) for records, _ in tables]
    for name in labels[0]:
        if len(values := list(dict.fromkeys(str(one[name]) for one in labels))) > 1:
            raise ConfigError(
                f"{folder}: its conditions differ in {name} ({', '.join(values)}), and a calibrator is of one: choose by "
                f"--condition {name}={values[0]}"
            )
    observed = observe(tables)
    if observed.traces.empty:
        why = ", ".join(f"{said} ({count})" for said, count in observed.left_out.items()) or "it has no records"
        raise UserError(f"{folder}: no trace to learn from: {why}" + ("; choose by --condition" if FED in why else ""))
    return Evaluated(request["run"], identity_of(request, labels[0]), observed)


def fit(found: Evaluated, where: str) -> Trust:
    """A calibrator. `where`: what lines call the evaluation.

    Raises:
        UserError: there is too little to learn from.
    """
    observed = found.observed
    half = observed.traces["cluster"].map(lambda name: text_hash(f"half {name}") % 2 == 0)
    learning, judging = observed.some(half), observed.some(~half)
    _check_enough(observed, (learning, judging), where)
    names, unused = _usable(observed.frames, learning.at_risk)
    hazard = _fitted(learning.at_risk, names, where)
    return Trust(
        found.identity,
        hazard,
        bound_of(judging, hazard),
        bound(
            [-float(place) if place >= 0 else None for place in judging.traces["error"]], [*judging.traces["cluster"]]
        ),
        frozenset(observed.traces["cluster"]),
        {
            "run": found.run,
            "splits": sorted(set(observed.traces["split"])),
            "conditions": sorted(set(observed.traces["condition"])),
            "traces": len(observed.traces),
            "clusters": int(observed.traces["cluster"].nunique()),
            "errors": int((observed.traces["error"] >= 0).sum()),
            "frames": len(observed.at_risk),
            "after_an_error": int((~observed.frames["at_risk"]).sum()),
            "left_out": dict(observed.left_out),
            "unused": unused,
            "cross_validated": _honest(observed.at_risk, names),
        },
    )


def _check_enough(observed: Observed, halves: Sequence[Observed], where: str) -> None:
    errors, clusters = observed.traces["error"], observed.traces["cluster"].nunique()
    if (errors < 0).all():
        raise UserError(
            f"{where}: all {len(errors)} traces are right, so that no error can be learnt: take harder programs"
        )
    if (errors == observed.frames.groupby("trace")["place"].min()).all():
        raise UserError(
            f"{where}: all {len(errors)} traces are wrong in their first frame, so that no right one can be learnt: take "
            "easier programs, or a model that was trained on them"
        )
    if clusters < LEAST_CLUSTERS:
        raise UserError(
            f"{where}: {clusters} programs (functions, of which executions count once): a calibrator takes {LEAST_CLUSTERS}: "
            "evaluate more"
        )
    least = min(half.traces.loc[half.traces["error"] >= 0, "cluster"].nunique() for half in halves)
    if least < LEAST_ERRORS:
        raise UserError(
            f"{where}: {least} programs with an error in a half of all: a calibrator takes {LEAST_ERRORS}: evaluate more"
        )


def _usable(frames: pd.DataFrame, learning: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """The signals that every frame has and that are not the same of all, and why others are not used."""
    unused = {}
    for name in SIGNALS:
        if (missing := int(frames[name].isna().sum())) > 0:
            unused[name] = f"cannot be told of {missing:,} of {len(frames):,} frames"
        elif learning[name].nunique() == 1:
            unused[name] = "is the same of all frames"
    return [name for name in SIGNALS if name not in unused], unused


def _fitted(frames: pd.DataFrame, names: Sequence[str], where: str) -> Hazard:
    try:
        return fit_hazard(frames, names)
    except ValueError as error:
        raise UserError(f"{where}: {error}: evaluate more programs") from None


def bound_of(judging: Observed, hazard: Hazard) -> Bound:
    """P at the first error of each trace; just before it, where the model wrote nothing of that frame."""
    right = paths(judging, hazard)["right"]
    trace, place = judging.frames["trace"], judging.frames["place"]
    error = judging.traces["error"].to_numpy()
    up_to = judging.frames.assign(right=right)[place.to_numpy() <= error[trace]].groupby("trace")["right"].last()
    scores = [float(up_to.get(number, 1.0)) if at >= 0 else None for number, at in enumerate(error)]
    return bound(scores, [*judging.traces["cluster"]])


def _honest(frames: pd.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """Figures on programs that a fit has not seen, beside those of the frame's number alone and of one hazard for all."""
    events = frames["event"].to_numpy()
    found = {}
    for title, chosen in {"signals": list(names), "frame number alone": [NUMBER], "constant": []}.items():
        hazards = cross_validated(frames, chosen)
        area = auroc(hazards, events.tolist(), frames["cluster"].tolist())
        same = auroc(hazards, events.tolist(), frames["cluster"].tolist(), frames["place"].tolist())
        found[title] = {
            "log_loss": loss(events, hazards),
            "auroc": None if area is None or not chosen else [*area[:3]],
            "auroc_at_the_same_frame": None if same is None or not chosen else [*same[:3]],
        }
    return found


def described(trust: Trust) -> list[str]:
    """What was fitted, in lines for people."""
    about, judged = trust.fitted, trust.fitted["cross_validated"]
    lines = [
        f"{about['run']}: {about['traces']:,} traces of {about['clusters']:,} programs ({', '.join(about['splits'])}), "
        f"{about['errors']:,} with an error; {about['frames']:,} frames up to it, {about['after_an_error']:,} after it left out"
    ]
    for why, count in about["left_out"].items():
        lines.append(f"left out: {count:,} traces: {why}")
    lines += [f"signal {name} is not used: it {why}" for name, why in about["unused"].items()]
    for title, one in judged.items():
        area, same = (_said(one[name]) for name in ("auroc", "auroc_at_the_same_frame"))
        foretold = f"; AUROC {area}, of frames of one number {same}" if area else ""
        lines.append(f"{title}: {one['log_loss']:.4f} nats a frame{foretold}")
    lines.append(
        "(by fits on other programs; AUROC with 95 % intervals over programs: how often doubt is higher of a first error)"
    )
    low, high = trust.bound.spread(RISK)
    lines.append(
        f"believed at a risk of {RISK:.0%}: judged by {trust.bound.clusters:,} programs; 95 of 100 such calibrations keep between "
        f"{low:.0%} and {high:.0%} of traces right"
    )
    return lines


def _said(found: Sequence[float] | None) -> str:
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})" if found else ""
