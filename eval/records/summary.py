"""Summary of an evaluation. All rates of conditions are computed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from remedy.checksums import write_json
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.records.baselines import Baselines, baselines
from remedy.eval.records.failures import UNTRACED, Failure
from remedy.eval.records.knowledge import Knowledge
from remedy.eval.records.schema import (
    FRAMES,
    PARTS,
    ROLE_COLUMNS,
    TRACE_COLUMNS,
    LabelValue,
    answered,
    label_columns,
    traced_only,
    with_changed,
)
from remedy.eval.stats import Estimate, mean, pooled, rate

if TYPE_CHECKING:
    import pandas as pd


class ConditionSummary(TypedDict):
    """Summary of one condition of one run, over its traced examples."""

    run: str
    """The name that the evaluation gives the checkpoint."""
    variant: str
    """The recipe of this run; the run itself if the records name none."""
    diagnostic: str
    """The kind of diagnostic."""
    condition: str
    """The name of the condition's files."""
    labels: dict[str, LabelValue]
    """Labels that distinguish the condition from others."""
    examples: int
    """Number of scored examples."""
    programs: int
    """Number of distinct programs."""
    clusters: int
    """Number of clusters."""
    untraced: dict[str, int]
    """Programs left out because they could not run, by outcome."""
    right: Estimate | None
    """Share of right answers, with a Wilson interval over clusters; None if nothing was scored, or the answers were fed."""
    baselines: Baselines
    """Shares that would be right without a model."""
    valid_format: Estimate | None
    """Share of outputs that read as whole traces."""
    truncated: float
    """Share cut by a limit on tokens."""
    trace_tokens: float
    """Mean tokens of the true sequence without its context."""
    written_tokens: float
    """Mean tokens that the model wrote."""
    read_tokens: float
    """Mean tokens that it had to read, without drafts."""
    state_exact: Estimate | None
    """Mean share of exact states, with a t interval; None if no state is shown, or all are fed. The same holds for the next
    four."""
    action_exact: Estimate | None
    """Mean share of exact actions."""
    value_exact: Estimate | None
    """Mean share of values that are returned or raised."""
    key_match: Estimate | None
    """Mean share of variables shown."""
    key_value_match: Estimate | None
    """Mean share of variables shown with their values."""
    per_frame: dict[str, Estimate]
    """Shares of right `states`, `changed_states`, `actions` and `returns` over all traces, with a Wilson interval over clusters;
    without fed ones. Where states are fed, each is right given the true past."""
    failures: dict[str, int]
    """Wrong answers by failure class, in the order of `Failure`."""
    lacks: NotRequired[str]
    """Why the model cannot know traces, or which roles it was never taught; absent for other models."""


SHARES = {**dict(PARTS.values()), "key_match": "states", "key_value_match": "states"}
"""Shares of a trace's frames, and the column that counts those frames."""


def summarise(records: pd.DataFrame, knowledge: Knowledge | None = None) -> list[ConditionSummary]:
    """Summarise each condition of each run, in the records' order."""
    labels = label_columns(records)
    groups = records.groupby(["run", "condition"], sort=False, dropna=False)
    return [_with_lacks(_condition(group, labels), group, knowledge or Knowledge()) for _, group in groups]


def _with_lacks(condition: ConditionSummary, rows: pd.DataFrame, knowledge: Knowledge) -> ConditionSummary:
    form = FORMATS.get(str(condition["labels"].get("format")))
    shown = [role for role, column in ROLE_COLUMNS.items() if rows[column].any()]
    lacks = knowledge.lacks(str(condition["labels"]["forcing"]), form is not None and form.one_token, shown)
    return {**condition, "lacks": lacks} if lacks else condition


def write_summary(
    path: Path, run: str, conditions: list[ConditionSummary], evaluation: str, headlines: Mapping[str, Any] = {}
) -> None:
    """Write an evaluation's summary atomically.

    `evaluation`: its digest. `headlines`: statements about several conditions.
    """
    write_json(path, {"run": run, "evaluation": evaluation, **headlines, "conditions": [*map(_as_json, conditions)]})


def _as_json(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value._asdict()
    return {key: _as_json(item) for key, item in value.items()} if isinstance(value, dict) else value


def _condition(everything: pd.DataFrame, labels: list[str]) -> ConditionSummary:
    first, rows = everything.iloc[0], traced_only(everything)
    return {
        "run": str(first["run"]),
        "variant": str(first.get("variant", first["run"])),
        "diagnostic": str(first["diagnostic"]),
        "condition": str(first["condition"]),
        "labels": {name: _plain(value) for name, value in first[labels].dropna().items()},
        "examples": len(rows),
        "programs": rows["example"].nunique(),
        "clusters": rows["cluster"].nunique(),
        "untraced": counts(everything.loc[everything["failure"] == UNTRACED, "outcome"]),
        "right": rate_of(answered(rows), "right"),
        "baselines": baselines(rows),
        "valid_format": rate_of(rows, "valid_format"),
        "truncated": _mean_of(rows["truncated"]),
        "trace_tokens": _mean_of(rows[TRACE_COLUMNS].sum(axis=1)),
        "written_tokens": _mean_of(rows["written_tokens"]),
        "read_tokens": _mean_of(rows["read_tokens"]),
        **{name: share_of(rows, name) if rows[of].sum() else None for name, of in SHARES.items()},  # type: ignore[typeddict-item]
        "per_frame": _per_frame(rows),
        "failures": {kind: int((rows["failure"] == kind).sum()) for kind in Failure if (rows["failure"] == kind).any()},
    }


def _per_frame(rows: pd.DataFrame) -> dict[str, Estimate]:
    estimates, rows = {}, with_changed(rows)
    for share, of in FRAMES.values():
        counted_rows = rows[rows[share].notna() & (rows[of] > 0)] if share in rows else rows[:0]
        if len(counted_rows):
            # A share times its count is a whole number, but for rounding.
            estimates[of] = pooled_of(
                (counted_rows[share] * counted_rows[of]).round(), counted_rows[of], counted_rows["cluster"]
            )
    return estimates


def rate_of(rows: pd.DataFrame, column: str) -> Estimate | None:
    return rate(rows[column].astype(bool).tolist(), rows["cluster"].tolist()) if len(rows) else None


def share_of(rows: pd.DataFrame, column: str) -> Estimate | None:
    """Return the mean of a column of shares, without its nulls."""
    rows = rows[rows[column].notna()]
    return mean(rows[column].tolist(), rows["cluster"].tolist()) if len(rows) else None


def pooled_of(right: pd.Series, of: pd.Series, clusters: pd.Series) -> Estimate:
    return pooled(right.astype(int).tolist(), of.tolist(), clusters.tolist())


def counts(values: pd.Series) -> dict[str, int]:
    """Count each value, the most frequent first."""
    return {str(value): int(count) for value, count in values.value_counts().items()}


def _mean_of(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else 0.0


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
