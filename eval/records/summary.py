"""The summary of an evaluation: what happened under each condition. The one place where a rate of a condition is computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pandas as pd

from remedy.checksums import DamagedFile, read_json, write_json
from remedy.data_gen.roles import Role
from remedy.eval.records.baselines import Baselines, baselines
from remedy.eval.records.failures import UNTRACED, Failure
from remedy.eval.records.schema import (
    CURE,
    OUT_OF,
    ROLE_COLUMNS,
    TRACE_COLUMNS,
    LabelValue,
    answered,
    label_columns,
    traced_only,
)
from remedy.eval.stats import Estimate, mean, pooled, rate


class Interval(TypedDict):
    """A rate or mean share with its 95 % interval over clusters. `effective`: so many independent examples would say as much."""

    mean: float
    low: float
    high: float
    examples: int
    effective: float


class Hazard(TypedDict):
    """Rate of first errors in a role."""

    errors: int
    """Examples whose first error is in the role."""
    frames: int
    """Frames up to the first error, or to the end."""
    tokens: int
    """Tokens of the role that the model wrote until then."""
    per_frame: Interval
    """First errors of a frame."""
    per_token: Interval
    """First errors of a token of the role."""


class ConstraintEffect(TypedDict):
    """Effect of a constraint on what was written under it."""

    written: int
    """Tokens that the model wrote."""
    certain: int
    """Tokens that could be no others, which were fed."""
    certain_share: Interval
    """Their share of all tokens of the traces."""
    masked: int
    """Tokens that the model chose among several allowed ones."""
    cut: Interval | None
    """The probability that the model gave to all others there: of each trace the mean, of these the mean. None where a server chose,
    which does not tell."""
    changed: Interval | None
    """Share of the tokens it wrote that are not its likeliest; None where a server chose."""


MAYBE = "untrained"
"""The key that a condition has only where it says something."""


class ConditionSummary(TypedDict):
    """One condition of one run, over its examples that could be traced."""

    run: str
    """The name that the evaluation gives the checkpoint."""
    diagnostic: str
    """The kind of diagnostic."""
    condition: str
    """The name of the condition's files."""
    labels: dict[str, LabelValue]
    """What tells the condition from others."""
    examples: int
    """How many examples were scored."""
    programs: int
    """How many distinct programs they are."""
    clusters: int
    """How many clusters they are drawn in."""
    untraced: dict[str, int]
    """Programs left out since they could not be run, by outcome."""
    right: Interval | None
    """Share of right answers, with a Wilson interval over clusters; None if nothing was scored, or answers are not the model's, since
    what they are read from was fed."""
    baselines: Baselines
    """What would be right without a model."""
    valid_format: Interval | None
    """Share of traces that read as traces."""
    truncated: float
    """Share cut by a limit on tokens."""
    tokens: dict[str, float]
    """Mean tokens of the true sequence, by role."""
    trace_tokens: float
    """Mean tokens of the true sequence without its context."""
    written_tokens: float
    """Mean tokens that the model wrote."""
    read_tokens: float
    """Mean tokens that it had to read for that, without guesses."""
    frames_right: float
    """Mean frames before the first error."""
    state_exact: Interval | None
    """Mean share of exact states, with a t interval; None if no state is shown, or all are fed. So with the next four."""
    action_exact: Interval | None
    """Mean share of exact actions."""
    value_exact: Interval | None
    """Mean share of values that are returned or raised."""
    key_match: Interval | None
    """Mean share of variables shown."""
    key_value_match: Interval | None
    """Mean share of variables shown with their values."""
    per_frame: dict[str, Interval]
    """Shares of all `states`, `actions` and `returns` of the traces that are right, with a Wilson interval over clusters; not of what
    was fed. Where states are fed, they are right given the true past."""
    respelled: int
    """States that mean the true one and are spelled otherwise."""
    tokens_per_state: float | None
    """Tokens of states over states."""
    tokens_per_action: float | None
    """Tokens of actions over frames."""
    failures: dict[str, int]
    """Wrong answers by failure class, in the order of `Failure`."""
    followed_another: int
    """First errors that are wrong actions which follow another occurrence of the line before them."""
    wrong_actions: dict[str, int]
    """First errors that are wrong actions, by what the program's control flow says of them; without those of which it says nothing."""
    constraint: ConstraintEffect | None
    """What a constraint did; None without one."""
    wrong_state_types: dict[str, int]
    """Failures by a wrong state, by the type of value, the most frequent first."""
    operations: dict[str, dict[str, int]]
    """Failures by class (a wrong state's with its type, `wrong state: str`), then by operation."""
    first_errors: dict[str, int]
    """Examples by the role of their first error, right answers included; those without an error are left out."""
    hazards: dict[str, Hazard]
    """By role: how often the first error is in it, out of how much the model wrote."""
    first_errors_in_string: int
    """How many of these first errors are in the text of a string value."""
    environments: list[str]
    """Interpreters and isolations that ran the programs."""
    untrained: NotRequired[str]
    """Why the model cannot know traces; only there of such a model."""


PER_FRAME = {"states": "state_exact", "actions": "action_exact", "returns": "value_exact"}
"""What is counted by frames, and the share of it that is right."""
SHARES = {**{share: of for of, share in PER_FRAME.items()}, "key_match": "states", "key_value_match": "states"}
"""Shares of a trace's frames, and the column that counts those frames."""


def summarise(records: pd.DataFrame, untrained: str = "") -> list[ConditionSummary]:
    """Every condition of every run, in the order of the records. `untrained`: why their model cannot know traces, if so."""
    found = [
        _condition(group, label_columns(records))
        for _, group in records.groupby(["run", "condition"], sort=False, dropna=False)
    ]
    return [{**one, "untrained": untrained} for one in found] if untrained else found


def write_summary(
    path: Path,
    run: str,
    conditions: list[ConditionSummary],
    evaluation: str,
    headlines: Mapping[str, Any] | None = None,
) -> None:
    """Write an evaluation's summary, the whole file or none of it. `evaluation`: whose it is, by its digest. `headlines`: what is
    said of several conditions together, for whoever reads the file."""
    write_json(path, {"run": run, "evaluation": evaluation, **(headlines or {}), "conditions": conditions})


def read_summary(path: Path, evaluation: str | None = None) -> list[ConditionSummary]:
    """The conditions of a summary.

    Raises:
        DamagedFile: it is missing or damaged, or another evaluation's than `evaluation`, if that is given.
    """
    found = read_json(path, CURE)
    if evaluation not in (None, found["evaluation"]):
        raise DamagedFile(f"{path}: belongs to another evaluation: {CURE}")
    conditions: list[ConditionSummary] = found["conditions"]
    return conditions


def _condition(everything: pd.DataFrame, labels: list[str]) -> ConditionSummary:
    first = everything.iloc[0]
    left_out = everything[everything["failure"] == UNTRACED]["outcome"]
    rows = traced_only(everything)
    roles = {role: float(rows[column].mean()) if len(rows) else 0.0 for role, column in ROLE_COLUMNS.items()}
    states, actions = int(rows["states"].sum()), int(rows["actions"].sum())
    wrong_states = rows[rows["failure"] == Failure.WRONG_STATE]["value_type"]
    found = rows[rows["first_error_role"] != ""]
    return {
        "run": str(first["run"]),
        "diagnostic": str(first["diagnostic"]),
        "condition": str(first["condition"]),
        "labels": {name: _plain(first[name]) for name in labels if not pd.isna(first[name])},
        "examples": len(rows),
        "programs": rows["example"].nunique(),
        "clusters": rows["cluster"].nunique(),
        "untraced": _counts(left_out),
        "right": _rate(answered(rows), "right"),
        "baselines": baselines(rows),
        "valid_format": _rate(rows, "valid_format"),
        "truncated": _mean_of(rows["truncated"]),
        "tokens": {role.label: count for role, count in roles.items()},
        "trace_tokens": _mean_of(rows[TRACE_COLUMNS].sum(axis=1)),
        "written_tokens": _mean_of(rows["written_tokens"]),
        "read_tokens": _mean_of(rows["read_tokens"]),
        "frames_right": _mean_of(rows["frames_right"]),
        **{name: _share(rows[rows[name].notna()], name) if rows[of].sum() else None for name, of in SHARES.items()},  # type: ignore[typeddict-item]
        "per_frame": _per_frame(rows),
        "respelled": int(rows["respelled"].sum()),
        "tokens_per_state": float(rows[ROLE_COLUMNS[Role.STATE]].sum()) / states if states else None,
        "tokens_per_action": float(rows[ROLE_COLUMNS[Role.ACTION]].sum()) / actions if actions else None,
        "failures": {kind: int((rows["failure"] == kind).sum()) for kind in Failure if (rows["failure"] == kind).any()},
        "followed_another": int(rows["followed_another"].sum()),
        "wrong_actions": _counts(rows[rows["wrong_action"] != ""]["wrong_action"]),
        "constraint": _constraint(rows),
        "wrong_state_types": _counts(wrong_states),
        "operations": _operations(rows),
        "first_errors": _counts(found["first_error_role"]),
        "hazards": _hazards(rows),
        "first_errors_in_string": int(found["first_error_in_string"].sum()),
        "environments": sorted({f"{p} ({i})" for p, i in zip(rows["python"], rows["isolation"])}),
    }


def _per_frame(rows: pd.DataFrame) -> dict[str, Interval]:
    found = {}
    for of, share in PER_FRAME.items():
        judged = rows[rows[share].notna() & (rows[of] > 0)]
        if len(judged):
            right = (judged[share] * judged[of]).round().astype(int)
            found[of] = as_interval(pooled(right.tolist(), judged[of].tolist(), judged["cluster"].tolist()))
    return found


def _constraint(rows: pd.DataFrame) -> ConstraintEffect | None:
    written, certain, masked = (rows[f"{kind}_tokens"] for kind in ("written", "certain", "masked"))
    if not (certain.sum() + masked.sum() and written.sum()):
        return None
    clusters, chosen = rows["cluster"].tolist(), rows[masked > 0]
    untold = bool(rows["changed_tokens"].isna().any())

    def share(part: pd.Series, of: pd.Series) -> Interval:
        return as_interval(pooled(part.tolist(), of.tolist(), clusters))

    return {
        "written": int(written.sum()),
        "certain": int(certain.sum()),
        "certain_share": share(certain, certain + written),
        "masked": int(masked.sum()),
        "cut": None if untold else _share(chosen.assign(cut=chosen["cut_mass"] / chosen["masked_tokens"]), "cut"),
        "changed": None if untold else share(rows["changed_tokens"].astype(int), written),
    }


def _hazards(rows: pd.DataFrame) -> dict[str, Hazard]:
    frames = rows["frames_right"] + (rows["first_error_frame"] >= 0)
    found: dict[str, Hazard] = {}
    for role, column in OUT_OF.items():
        if not rows[column].sum():
            continue
        errors, tokens = (rows["first_error_role"] == role.label).astype(int), rows[column]
        clusters = rows["cluster"].tolist()
        found[role.label] = {
            "errors": int(errors.sum()),
            "frames": int(frames.sum()),
            "tokens": int(tokens.sum()),
            "per_frame": as_interval(pooled(errors.tolist(), frames.tolist(), clusters)),
            "per_token": as_interval(pooled(errors.tolist(), tokens.tolist(), clusters)),
        }
    return found


def _operations(rows: pd.DataFrame) -> dict[str, dict[str, int]]:
    failed = rows[rows["operation"] != ""]
    detail = failed["failure"].where(failed["failure"] != Failure.WRONG_STATE, "wrong state: " + failed["value_type"])
    return {str(kind): _counts(group["operation"]) for kind, group in failed.groupby(detail, sort=True)}


def _rate(rows: pd.DataFrame, name: str) -> Interval | None:
    return as_interval(rate(rows[name].astype(bool).tolist(), rows["cluster"].tolist())) if len(rows) else None


def _share(rows: pd.DataFrame, name: str) -> Interval | None:
    return as_interval(mean(rows[name].tolist(), rows["cluster"].tolist())) if len(rows) else None


def as_interval(found: Estimate) -> Interval:
    """An estimate as summaries hold it."""
    return {
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "examples": found.size,
        "effective": found.effective,
    }


def _mean_of(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else 0.0


def _counts(values: pd.Series) -> dict[str, int]:
    return {str(value): int(count) for value, count in values.value_counts().items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
