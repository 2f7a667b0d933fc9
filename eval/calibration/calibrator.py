"""The calibrator of one model: hazards from signals, and how far a trace is believed at a stated risk. It is stored as plain JSON.

It is fitted on an evaluation whose truth is known: hazards on one half of its programs, how far to believe on the other. While a trace
is written: `Trust.load(path)`, `check` it against the model, and give `follow(...)` each frame as it is finished.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from remedy.checksums import read_json, write_json
from remedy.data_gen.context_window import ALL, Memory, memory_name
from remedy.data_gen.splits import text_hash
from remedy.eval.calibration.bound import Bound, bound
from remedy.eval.calibration.hazard import Hazard, fit_hazard, with_hazards
from remedy.eval.calibration.signals import (
    FED,
    SIGNALS,
    UNTOLD,
    Observed,
    common_labels,
    conditions_named,
    observe,
    read_condition,
    signals_of,
)
from remedy.eval.decoding.forcings import CONSTRAINED
from remedy.eval.records.folder import read_request
from remedy.eval.records.generations import FrameProbability
from remedy.eval.records.schema import LabelValue
from remedy.settings import ConfigError, UserError

CURE = "fit it again with `remedy calibrate`"
RISK = 0.05
"""The risk at which a trace is believed if no other is asked for."""
LEAST_CLUSTERS = 40
"""Programs that a calibrator is fitted on at least: half of them judge, and of 20 one may err at a risk of 5 %."""
LEAST_ERRORS = 10
"""Programs with an error, in each half, at least."""
Identity = dict[str, LabelValue | None]
"""What a calibrator is of: `weights` and `tokenizer_fingerprint` of the model, its `memory` (null, a number of frames, or the name of
one with open calls), and the labels of how traces are written and decoded (`records.COMMON`)."""


def identity_of(request: Mapping[str, Any], labels: Mapping[str, LabelValue]) -> Identity:
    """The identity of an evaluation's condition. `request`: the evaluation's; `labels`: those that all conditions have."""
    checkpoint, memory = request["checkpoint"], request["data"].get("memory")
    name = str(labels.get("memory") or memory_name(None if memory is None else Memory.model_validate(memory)))
    return {
        "weights": checkpoint["weights"],
        "tokenizer_fingerprint": checkpoint["tokenizer_fingerprint"],
        **labels,
        "memory": None if name == ALL else int(name) if name.isdecimal() else name,
    }


class Belief(NamedTuple):
    """Belief in a trace up to a frame: the frame's hazard, the probability that all frames so far are right (0 from a contradiction
    of what was written before on), and whether they are believed. The first two are the calibrator's estimates; what is guaranteed
    is told of `believed` alone (`bound`)."""

    hazard: float
    right: float
    believed: bool


class Follower:
    """Takes the frames of one trace in turn."""

    def __init__(self, trust: Trust, risk: float, threshold: float) -> None:
        self.trust = trust
        self.risk = risk
        self.threshold = threshold
        self.tokens = 0
        self.right = 1.0
        self.believed = True

    def take(self, frame: FrameProbability, contradicts: bool | None = None) -> Belief:
        """The next frame of which the model wrote tokens. `contradicts`: whether it stands against what was written before; None: it
        cannot be told.

        Raises:
            UserError: a signal that the calibrator needs cannot be told.
        """
        self.tokens += frame.tokens
        found = signals_of(frame, self.tokens, str(self.trust.identity["forcing"]) in CONSTRAINED, contradicts)
        values = [found[name] for name in self.trust.hazard.signals]
        if missing := [name for name, value in zip(self.trust.hazard.signals, values) if value is None]:
            raise UserError(f"the calibrator needs {', '.join(missing)}, which cannot be told of this trace")
        hazard = float(self.trust.hazard.of(np.array([values], dtype=float))[0])
        self.right *= 0.0 if contradicts else 1 - hazard
        self.believed = self.believed and self.right > self.threshold
        return Belief(hazard, self.right, self.believed)


class Trust(NamedTuple):
    """A calibrator. `bound`: of P where the first error is; `by_number`: of how early it is (minus its place), which is what believing
    a fixed number of frames takes; `programs`: clusters that it was fitted on; `fitted`: on what, and how well, for people."""

    identity: Identity
    hazard: Hazard
    bound: Bound
    by_number: Bound
    programs: frozenset[str]
    fitted: Mapping[str, Any]

    def follow(self, risk: float = RISK) -> Follower:
        """Follows one trace. `risk`: how often, over traces, a believed frame may be wrong.

        Raises:
            UserError: the risk is none, or too small for the programs that the calibrator was fitted on.
        """
        if not 0 < risk < 1:
            raise UserError(f"risk {risk:g}: between 0 and 1")
        threshold = self.bound.threshold(risk)
        if math.isinf(threshold) and threshold > 0:
            raise UserError(
                f"risk {risk:g}: with {self.bound.clusters} programs to judge by nothing can be believed; it takes "
                f"{math.ceil(1 / risk - 1)}, or a risk of {1 / (self.bound.clusters + 1):.2g}"
            )
        return Follower(self, risk, threshold)

    def check(self, identity: Identity, name: str) -> None:
        """Say if the calibrator is of this model, whose traces are written and decoded so. `name`: what the line calls the model.

        Raises:
            UserError: it is not.
        """
        if differing := [key for key in self.identity if self.identity[key] != identity.get(key)]:
            said = ", ".join(f"{key} {self.identity[key]} and not {identity.get(key)}" for key in differing)
            raise UserError(f"the calibrator is not of {name} as it is used here: it is of {said}: {CURE}")

    def check_served(self) -> None:
        """Say if all that the calibrator needs is told by a server that holds its model to a constraint.

        Raises:
            UserError: it is not.
        """
        if missing := [name for name in self.hazard.signals if name in UNTOLD]:
            raise UserError(
                f"the calibrator needs {', '.join(missing)}, which a server does not tell of what it chose under a constraint: fit one "
                "on an evaluation by the server, or remove backend"
            )

    def save(self, path: Path) -> None:
        """Write it, the whole file or none of it.

        Raises:
            OSError: it cannot be written.
        """
        content = {
            name: one._asdict() if isinstance(one, Hazard | Bound) else one for name, one in self._asdict().items()
        }
        write_json(path, {**content, "programs": sorted(self.programs)})

    @classmethod
    def load(cls, path: Path) -> Trust:
        """A calibrator that `save` wrote.

        Raises:
            DamagedFile: it is missing or damaged.
            UserError: it is no calibrator, or of another version.
        """
        content = read_json(path, CURE)
        try:
            return cls(
                content["identity"],
                Hazard(**_tuples(content["hazard"])),
                Bound(**_tuples(content["bound"])),
                Bound(**_tuples(content["by_number"])),
                frozenset(content["programs"]),
                content["fitted"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is no calibrator of this version of remedy ({error}): {CURE}") from None


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, Sequence) else value for name, value in content.items()}


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
    traces, error = observed.traces, observed.traces["error"]
    half = traces["cluster"].map(lambda name: text_hash(f"half {name}") % 2 == 0)
    learning, judging = observed.some(half), observed.some(~half)
    if why := _too_little(observed, (learning, judging)):
        raise UserError(f"{where}: {why}")
    frames = learning.at_risk
    names, unused = _usable(observed.frames, frames)
    try:
        hazard = fit_hazard(frames, names)
    except ValueError as problem:
        raise UserError(f"{where}: {problem}: evaluate more programs") from None
    early = [-float(place) if place >= 0 else None for place in judging.traces["error"]]
    about = {
        "run": found.run,
        "splits": sorted(set(traces["split"])),
        "conditions": sorted(set(traces["condition"])),
        "traces": len(traces),
        "clusters": int(traces["cluster"].nunique()),
        "errors": int((error >= 0).sum()),
        "frames": len(observed.at_risk),
        "after_an_error": int((~observed.frames["at_risk"]).sum()),
        "left_out": dict(observed.left_out),
        "unused": unused,
    }
    by_number = bound(early, [*judging.traces["cluster"]])
    return Trust(found.identity, hazard, bound_of(judging, hazard), by_number, frozenset(traces["cluster"]), about)


def _too_little(observed: Observed, halves: Sequence[Observed]) -> str:
    """Say why nothing can be learnt; empty if something can."""
    errors, clusters = observed.traces["error"], observed.traces["cluster"].nunique()
    if (errors < 0).all():
        return f"all {len(errors)} traces are right, so that no error can be learnt: take harder programs"
    if (errors == observed.frames.groupby("trace")["place"].min()).all():
        return (
            f"all {len(errors)} traces are wrong in their first frame, so that no right one can be learnt: take easier programs, or a "
            "model that was trained on them"
        )
    if clusters < LEAST_CLUSTERS:
        return f"{clusters} programs (functions, of which executions count once): a calibrator takes {LEAST_CLUSTERS}: evaluate more"
    least = min(half.traces.loc[half.traces["error"] >= 0, "cluster"].nunique() for half in halves)
    if least < LEAST_ERRORS:
        return f"{least} programs with an error in a half of all: a calibrator takes {LEAST_ERRORS}: evaluate more"
    return ""


def _usable(frames: pd.DataFrame, learning: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """The signals that every frame has and that are not the same of all, and why others are not used."""
    unused = {}
    for name in SIGNALS:
        if (missing := int(frames[name].isna().sum())) > 0:
            unused[name] = f"cannot be told of {missing:,} of {len(frames):,} frames"
        elif learning[name].nunique() == 1:
            unused[name] = "is the same of all frames"
    return [name for name in SIGNALS if name not in unused], unused


def bound_of(judging: Observed, hazard: Hazard) -> Bound:
    """P at the first error of each trace; just before it, where the model wrote nothing of that frame."""
    frames, error = with_hazards(judging, hazard), judging.traces["error"].to_numpy()
    up_to = frames[frames["place"].to_numpy() <= error[frames["trace"]]].groupby("trace")["right"].last()
    scores = [float(up_to.get(number, 1.0)) if at >= 0 else None for number, at in enumerate(error)]
    return bound(scores, [*judging.traces["cluster"]])


def described(trust: Trust) -> list[str]:
    """Return what was fitted, in lines for people."""
    about = trust.fitted
    lines = [
        f"{about['run']}: {about['traces']:,} traces of {about['clusters']:,} programs ({', '.join(about['splits'])}), "
        f"{about['errors']:,} with an error; {about['frames']:,} frames up to it, {about['after_an_error']:,} after it left out"
    ]
    lines += [f"left out: {count:,} traces: {why}" for why, count in about["left_out"].items()]
    lines += [f"signal {name} is not used: it {why}" for name, why in about["unused"].items()]
    low, high = trust.bound.spread(RISK)
    return [
        *lines,
        f"believed at a risk of {RISK:.0%}: judged by {trust.bound.clusters:,} programs; 95 of 100 such calibrations keep between "
        f"{low:.0%} and {high:.0%} of traces right",
    ]
