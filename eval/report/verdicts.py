"""The verdict table: each mitigation against its baseline on the same examples, with its token cost."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

import pandas as pd

from remedy.data_gen.rewrites import REWRITES
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, Settings, suggest
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.eval.stats import Paired, paired, verdict

CONDITION_KEYS = (
    "diagnostic",
    "benchmark",
    "rewrite",
    "family",
    "form",
    "depth",
    "function",
    "length",
    "spacing",
    "locals",
    "strings",
    "forcing",
)
COST = tuple(role.column for role in Role if role is not Role.CONTEXT)


Failure = Literal["token budget", "strings", "long horizon", "any"]


class Side(Settings):
    """Records of one run; `where` picks conditions by their labels: `{length: 64, forcing: action_forced}`."""

    run: str
    where: dict[str, int | float | str] = {}


class Comparison(Settings):
    """A mitigation and the failure it is meant to cure."""

    mitigation: str
    failure: Failure = "any"
    baseline: Side
    treatment: Side


class Verdict(NamedTuple):
    """One row of the table. `token_ratio`: tokens of the treatment's traces over the baseline's, on the shared examples."""

    comparison: Comparison
    result: Paired
    token_ratio: float
    word: str
    sentence: str


def judge(comparison: Comparison, records: pd.DataFrame) -> Verdict:
    """Compare two sides on the examples both have.

    Raises:
        ConfigError: a side names a run or label that the records do not have, or no example is shared.
    """
    both = merged(comparison, records)
    result = paired(both["final_right_before"].tolist(), both["final_right_after"].tolist())
    # Where either side was not written, the tokens compare nothing.
    written = both[(both["cost_before"] > 0) & (both["cost_after"] > 0)]
    ratio = float(written["cost_after"].sum() / written["cost_before"].sum()) if len(written) else math.nan
    word = verdict(result)
    return Verdict(comparison, result, ratio, word, _sentence(comparison, result, ratio, word))


def merged(comparison: Comparison, records: pd.DataFrame) -> pd.DataFrame:
    """The records of both sides on the examples that both have, one row each, as `..._before` and `..._after`.

    Raises:
        ConfigError: as `judge`.
    """
    before, after = (_select(side, records, comparison) for side in (comparison.baseline, comparison.treatment))
    both = before.merge(after, on=["example", "index", "split"], suffixes=("_before", "_after"), validate="1:1")
    if both.empty:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: the two sides share no example; "
            "evaluate both on the same task, seed and lengths"
        )
    return both


def default_comparisons(records: pd.DataFrame) -> list[Comparison]:
    """Every run against the first one, condition by condition, and on real programs every rewrite, forcing and way to write
    against the first one of its kind in the same run."""
    first = str(records["run"].iloc[0])
    return [*pairwise(records, first), *within_runs(records)]


def within_runs(records: pd.DataFrame) -> list[Comparison]:
    """Conditions of the `code` diagnostic that differ from the first one of their run and benchmark in one label."""
    found = []
    rows = records[records["diagnostic"] == "code"]
    for (run, benchmark), group in rows.groupby(["run", "benchmark"] if len(rows) else [], sort=False):
        conditions = sorted(group[list(VARIED)].drop_duplicates().to_dict("records"), key=rank)
        for condition in conditions[1:]:
            changed = [label for label in VARIED if condition[label] != conditions[0][label]]
            if len(changed) == 1:
                label, value = changed[0], condition[changed[0]]
                start = f"{run}, {benchmark}: " if rows[["run", "benchmark"]].drop_duplicates().shape[0] > 1 else ""
                sides = ({"diagnostic": "code", "benchmark": benchmark, **c} for c in (conditions[0], condition))
                before, after = (Side(run=run, where={str(k): v for k, v in side.items()}) for side in sides)
                name = f"{start}{label} {value} for {conditions[0][label]}"
                kind = _AIMS.get((label, value), "any")
                found.append(Comparison(mitigation=name, failure=kind, baseline=before, treatment=after))
    return found


VARIED = ("rewrite", "spacing", "locals", "strings", "forcing")
_ORDER: dict[str, tuple[str, ...]] = {
    "rewrite": ("none", *REWRITES, "all"),
    "locals": ("full", "diff"),
    "strings": tuple(ENCODINGS),
    "forcing": ("free", "action_forced", "direct"),
}


def rank(condition: Mapping[Hashable, Any]) -> tuple[Any, ...]:
    """Sorts conditions on real programs: what is nearest to a plain free trace comes first."""
    ordered = (_ORDER[label].index(condition[label]) if label in _ORDER else condition[label] for label in VARIED)
    return tuple(ordered)


_AIMS: dict[tuple[str, object], Failure] = {
    ("rewrite", "characters"): "strings",
    ("rewrite", "fstrings"): "strings",
    ("strings", "spaced"): "strings",
    ("strings", "list"): "strings",
    ("strings", "indexed"): "strings",
    ("locals", "diff"): "token budget",
    ("forcing", "direct"): "token budget",
    ("forcing", "action_forced"): "long horizon",
}


def pairwise(records: pd.DataFrame, baseline: str) -> list[Comparison]:
    """Every other run against the baseline, over all conditions they share."""
    others = [run for run in dict.fromkeys(records["run"]) if run != baseline]
    comparisons = []
    for run in others:
        for labels in _shared_conditions(records, baseline, run):
            named = ", ".join(f"{key} {value}" for key, value in labels.items() if value not in ("", None))
            comparisons.append(
                Comparison(
                    mitigation=f"{run} ({named})",
                    baseline=Side(run=baseline, where=labels),
                    treatment=Side(run=run, where=labels),
                )
            )
    return comparisons


def _shared_conditions(records: pd.DataFrame, first: str, second: str) -> list[dict[str, int | float | str]]:
    keys = [key for key in CONDITION_KEYS if key in records]
    found = []
    for run in (first, second):
        rows = records.loc[records["run"] == run, keys].drop_duplicates().to_dict("records")
        found.append([{str(k): v for k, v in row.items() if not pd.isna(v)} for row in rows])
    return [labels for labels in found[0] if labels in found[1] and labels.get("form") != "atomic"]


def _select(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    where = f"comparison {comparison.mitigation!r}"
    runs = list(dict.fromkeys(records["run"]))
    if side.run not in runs:
        raise ConfigError(f"{where}: no records of run {side.run!r}; {suggest(side.run, runs)}")
    chosen = records[records["run"] == side.run]
    for key, value in side.where.items():
        if key not in records:
            raise ConfigError(f"{where}: records have no label {key!r}; {suggest(key, map(str, records.columns))}")
        chosen = chosen[chosen[key] == value]
    if chosen.empty:
        raise ConfigError(f"{where}: run {side.run!r} has no records where {side.where}")
    if chosen.duplicated(["example", "index", "split"]).any():
        free = [key for key in CONDITION_KEYS if key in chosen and chosen[key].nunique() > 1]
        raise ConfigError(f"{where}: {side.where} leaves several conditions of run {side.run!r}; also fix {free}")
    cost = chosen[list(COST)].sum(axis=1)
    kept = [column for column in ("failure",) if column in chosen]
    return chosen.assign(cost=cost)[["example", "index", "split", "final_right", "cost", *kept]]


def _sentence(comparison: Comparison, result: Paired, ratio: float, word: str) -> str:
    cost = "the same tokens" if abs(ratio - 1) < 0.005 else f"{ratio:.2f} times the tokens"
    if math.isnan(ratio):
        cost = "no tokens to compare"
    sure = f"{result.gained} examples gained, {result.lost} lost of {result.examples}"
    change = f"{result.baseline:.0%} to {result.treatment:.0%}"
    lead = {
        "fixed": f"Fixed: {change} right",
        "helped": f"Helped, not fixed: {change} right",
        "no evidence": f"No evidence of a difference: {change} right",
        "worse": f"Worse: {change} right",
    }[word]
    return f"{lead}, at {cost} ({sure})."
