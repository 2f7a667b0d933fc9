"""Comparisons of a mitigation with its baseline on the same examples, and what they say of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import pandas as pd

from remedy.data_gen.messages import suggest
from remedy.data_gen.settings import ConfigError, Settings
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.records import TRACE_COLUMNS, LabelValue, label_columns, rank
from remedy.eval.sections import in_order, named, text, varying
from remedy.eval.stats import Paired, VerdictWord, paired, verdict
from remedy.eval.summary import ConditionSummary

Aim = Literal["token budget", "strings", "long horizon", "any"]
FORMER_LABELS = {
    "every": "spacing",
    "show": "locals",
    "strings": "string_encoding",
    "direct": "answer_only",
}


class Side(Settings):
    """The records of one run under one condition."""

    run: str
    """The run's name."""
    where: dict[str, bool | int | float | str] = {}
    """The condition, by its labels: `{length: 64, forcing: action_forced}`."""


class Comparison(Settings):
    """A mitigation with its baseline."""

    mitigation: str
    """What reports call it."""
    failure: Aim = "any"
    """The failure that it is meant to cure."""
    baseline: Side
    """The records without it."""
    treatment: Side
    """The records with it."""


class Verdict(NamedTuple):
    """What a comparison says. `token_ratio`: tokens of the treatment's traces over the baseline's; NaN if none can be compared."""

    comparison: Comparison
    result: Paired
    token_ratio: float
    word: VerdictWord


def decide(comparison: Comparison, records: pd.DataFrame) -> Verdict:
    """Compare two sides on the examples both have.

    Raises:
        ConfigError: a side names a run or label that the records do not have, or no example is shared.
    """
    both = merged(comparison, records)
    result = paired(both["right_before"].tolist(), both["right_after"].tolist())
    # Where either side was not written, the tokens compare nothing.
    written = both[(both["cost_before"] > 0) & (both["cost_after"] > 0)]
    ratio = float(written["cost_after"].sum() / written["cost_before"].sum()) if len(written) else math.nan
    return Verdict(comparison, result, ratio, verdict(result))


def merged(comparison: Comparison, records: pd.DataFrame) -> pd.DataFrame:
    """The records of both sides on the examples that both have, one row each, as `..._before` and `..._after`.

    Raises:
        ConfigError: as `decide`.
    """
    before, after = (_select(side, records, comparison) for side in (comparison.baseline, comparison.treatment))
    both = before.merge(after, on=_PAIRED, suffixes=("_before", "_after"), validate="1:1")
    if both.empty:
        raise ConfigError(
            f"comparison {comparison.mitigation!r}: the two sides share no example; "
            "evaluate both on the same task, seed and lengths"
        )
    return both


_PAIRED = ["example", "index", "split"]


def default_comparisons(conditions: Sequence[ConditionSummary]) -> list[Comparison]:
    """Every run with the first one, condition by condition; and in a run, conditions with the first one, where their diagnostic
    says by which labels they are compared."""
    found: list[Comparison] = []
    for diagnostic in dict.fromkeys(condition["diagnostic"] for condition in conditions):
        mine = [condition for condition in conditions if condition["diagnostic"] == diagnostic]
        found += between_runs(mine)
        if diagnostic in DIAGNOSTICS:
            found += within_runs(mine, DIAGNOSTICS[diagnostic].compared)
    return found


def between_runs(conditions: Sequence[ConditionSummary]) -> list[Comparison]:
    """Every other run against the first one, over all conditions of a diagnostic that they share."""
    found = []
    first = conditions[0]["run"]
    baselines = {_key(condition): condition for condition in conditions if condition["run"] == first}
    names = varying(conditions)
    for condition in in_order(conditions):
        baseline = baselines.get(_key(condition))
        if condition["run"] != first and baseline is not None:
            said = named(condition["labels"], names)
            found.append(_comparison(condition["run"] + (f" ({said})" if said else ""), "any", baseline, condition))
    return found


def _key(condition: ConditionSummary) -> frozenset[tuple[str, LabelValue]]:
    return frozenset(condition["labels"].items())


def within_runs(conditions: Sequence[ConditionSummary], compared: Collection[str]) -> list[Comparison]:
    """Conditions against the first one of their run that differs from them in one of the `compared` labels, and in no other."""
    groups: dict[tuple[str, frozenset[tuple[str, LabelValue]]], list[ConditionSummary]] = {}
    for condition in conditions:
        rest = frozenset((name, value) for name, value in condition["labels"].items() if name not in compared)
        groups.setdefault((condition["run"], rest), []).append(condition)
    names = [name for name in varying(conditions) if name not in compared]
    found = []
    for (run, _), group in groups.items():
        ordered = sorted(group, key=lambda condition: _plainness(condition["labels"], compared))
        for condition in ordered[1:]:
            before, after = ordered[0]["labels"], condition["labels"]
            # Without a trace, there are no states that spacing and locals could say anything of.
            void = {"spacing", "locals"} if after["answer_only"] else set()
            changed = [name for name in compared if name not in void and before.get(name) != after.get(name)]
            if len(changed) == 1:
                (label,) = changed
                value = text(after[label])
                change = label if after[label] is True else f"{label} {value} in place of {text(before[label])}"
                start = f"{', '.join(filter(None, (run, named(after, names))))}: " if len(groups) > 1 else ""
                found.append(_comparison(start + change, _aim(label, after[label]), ordered[0], condition))
    return found


def _comparison(name: str, aim: Aim, baseline: ConditionSummary, treatment: ConditionSummary) -> Comparison:
    sides = [
        Side(run=side["run"], where={"diagnostic": side["diagnostic"], **side["labels"]})
        for side in (baseline, treatment)
    ]
    return Comparison(mitigation=name, failure=aim, baseline=sides[0], treatment=sides[1])


def _plainness(labels: Mapping[str, LabelValue], compared: Collection[str]) -> tuple[object, ...]:
    """Sorts conditions: whole traces before answers alone, then what stands first in each label's order."""
    return (labels["answer_only"], *(rank(name, labels[name]) for name in compared))


def _aim(label: str, value: LabelValue) -> Aim:
    match label, value:
        case ("rewrite", "characters" | "fstrings") | ("string_encoding", _):
            return "strings"
        case ("locals", "diff") | ("answer_only", _) | ("spacing", _):
            return "token budget"
        case ("forcing", "action_forced"):
            return "long horizon"
    return "any"


def _select(side: Side, records: pd.DataFrame, comparison: Comparison) -> pd.DataFrame:
    where = f"comparison {comparison.mitigation!r}"
    runs = list(dict.fromkeys(records["run"]))
    if side.run not in runs:
        raise ConfigError(f"{where}: no records of run {side.run!r}; {suggest(side.run, runs)}")
    chosen = records[records["run"] == side.run]
    for key, value in side.where.items():
        if key in FORMER_LABELS:
            raise ConfigError(f"{where}: the label {key!r} is now {FORMER_LABELS[key]!r}")
        if key not in records:
            raise ConfigError(f"{where}: records have no label {key!r}; {suggest(key, map(str, records.columns))}")
        chosen = chosen[chosen[key] == value]
    if chosen.empty:
        raise ConfigError(f"{where}: run {side.run!r} has no records where {side.where}")
    if chosen.duplicated(_PAIRED).any():
        free = [key for key in ("diagnostic", *label_columns(chosen)) if chosen[key].nunique() > 1]
        raise ConfigError(f"{where}: {side.where} leaves several conditions of run {side.run!r}; also fix {free}")
    return chosen.assign(cost=chosen[TRACE_COLUMNS].sum(axis=1))[[*_PAIRED, "right", "cost", "failure"]]
