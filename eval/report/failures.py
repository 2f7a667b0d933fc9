"""The failures of every diagnostic: classes, operations behind them, first errors, constraints, and what a mitigation moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure, WrongAction
from remedy.eval.records.schema import OUT_OF
from remedy.eval.records.summary import counts, pooled_of, share_of
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import paired, sides
from remedy.eval.stats import rate
from remedy.eval.tables.sections import (
    FAILURES,
    Group,
    Rows,
    Section,
    all_runs,
    grouped,
    interval,
    mean_of,
    named,
    percent,
    table,
    telling,
    tidied,
)

if TYPE_CHECKING:
    from remedy.eval.records.summary import ConditionSummary

IN_STRING, ANOTHER = "any, in a string's text", "After another occurrence"


def failure_sections(name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
    """The sections on the failures of one diagnostic, and on where first errors stand; none where there are none."""
    groups = grouped(conditions, records)
    scored = [group for group in groups if group.runs[0]["right"] is not None]
    found = []
    if any(_counts(group, "failure") for group in scored):
        found.append(Section(f"{name}: failure classes", rows=class_table(scored), note=NOTES["classes"]))
    operations = operation_table(groups)
    if len(operations) > 1 and len(operations[0]) > 3:
        found.append(Section(f"{name}: failures by operation", rows=operations, note=NOTES["operations"]))
    if any(_counts(group, "first_error_role") for group in groups):
        found.append(Section(f"{name}: first errors by role", rows=hazard_table(groups), note=NOTES["hazards"]))
    if len(held := constraint_table(groups)) > 1:
        found.append(Section(f"{name}: what constraints cut", rows=held, note=NOTES["constraint"]))
    if wrong := [group for group in groups if _counts(group, "wrong_action")]:
        rows = table(wrong, {"Examples": _examples, **_columns("wrong_action", WrongAction)})
        found.append(Section(f"{name}: wrong actions by control flow", rows=rows, note=NOTES["actions"]))
    return [section._replace(group=FAILURES) for section in found]


def _examples(group: Group) -> str:
    return f"{group.total('examples'):,}"


def _counts(group: Group, column: str) -> dict[str, int]:
    """Counts of each value of a column, without those that are empty."""
    return counts(group.records.loc[group.records[column] != "", column]) if len(group.records) else {}


def _columns(column: str, kinds: type[Failure] | type[WrongAction]) -> dict[str, Callable[[Group], str]]:
    """A column of a table for each kind, with its counts."""

    def count(kind: str, group: Group) -> str:
        return f"{_counts(group, column).get(kind, 0):,}"

    return {kind.capitalize(): partial(count, kind) for kind in kinds}


def class_table(groups: Sequence[Group]) -> Rows:
    """Examples by failure class, wrong states also by type of value, for every condition, all seeds together."""

    def types(group: Group) -> str:
        wrong = group.records[group.records["failure"] == Failure.WRONG_STATE]
        return ", ".join(f"{kind} {count:,}" for kind, count in counts(wrong["value_type"]).items())

    columns: dict[str, Callable[[Group], str]] = {
        "Examples": _examples,
        "Right": lambda group: f"{(group.records['failure'] == '').sum():,}",
        **_columns("failure", Failure),
        "Wrong states by type": types,
    }
    return table(groups, columns)


def operation_table(groups: Sequence[Group]) -> Rows:
    """Failures by class (a wrong state's with its type) and operation, for every condition; empty where all are of one operation."""
    about = telling(all_runs(groups))
    found = []
    for group in groups:
        if len(group.records):
            rows = group.records[group.records["operation"] != ""]
            kind = rows["failure"].where(rows["failure"] != Failure.WRONG_STATE, "wrong state: " + rows["value_type"])
            table_ = pd.crosstab(kind, rows["operation"])
            for name in table_.sum(axis=1).sort_values(ascending=False, kind="stable").index:
                said = {str(of): int(count) for of, count in table_.loc[name].items() if count}
                found.append(([group.variant, named(group.labels, about), str(name)], said))
    names = list(dict.fromkeys(of for _, said in found for of, _ in sorted(said.items(), key=lambda item: -item[1])))
    if len(names) < 2:
        return [[]]
    head = ["Recipe", "Condition", "Failure", *(name.capitalize() for name in names)]
    return tidied([head, *([*start, *(str(said.get(name, 0)) for name in names)] for start, said in found)])


def hazard_table(groups: Sequence[Group]) -> Rows:
    """First errors of every role, out of frames and out of what was written of the role; roles without an error are left out."""
    about = telling(all_runs(groups))
    rows = [["Recipe", "Condition", "Role", "First errors", ANOTHER, "Tokens written", "Per frame", "Per 1,000 tokens"]]
    for group in groups:
        start = [group.variant, named(group.labels, about)]
        for role, column in OUT_OF.items():
            errors = int((group.records["first_error_role"] == role.label).sum()) if len(group.records) else 0
            if errors and group.records[column].sum():
                another = f"{group.records['followed_another'].sum():,}" if role is Role.ACTION else ""
                rows.append([*start, role.label, f"{errors:,}", another, *_hazard(group.records, role, column)])
        inside = int(group.records["first_error_in_string"].sum()) if len(group.records) else 0
        if inside:
            rows.append([*start, IN_STRING, f"{inside:,}", "", "", "", ""])
    return tidied(rows)


def _hazard(records: pd.DataFrame, role: Role, column: str) -> list[str]:
    """The tokens that were written of a role, and first errors out of frames and out of these, of the runs that wrote any."""
    per_frame, per_token, tokens, frames = [], [], 0, 0
    for _, mine in records.groupby("run", sort=False):
        if mine[column].sum():
            errors, read = (
                mine["first_error_role"] == role.label,
                mine["frames_right"] + (mine["first_error_frame"] >= 0),
            )
            per_frame.append(pooled_of(errors, read, mine["cluster"]))
            per_token.append(pooled_of(errors, mine[column], mine["cluster"]))
            tokens, frames = tokens + int(mine[column].sum()), frames + int(read.sum())
    said = f"{1000 * sum(one['mean'] for one in per_token) / len(per_token):.2f}"
    if len(per_token) == 1:
        said += f"\n{1000 * per_token[0]['low']:.2f} to {1000 * per_token[0]['high']:.2f}"
    return [f"{tokens:,}\nin {frames:,} frames", mean_of(per_frame), said]


def constraint_table(groups: Sequence[Group]) -> Rows:
    """The effect of a constraint, a row for every constrained condition of every run."""
    about = [*dict.fromkeys([*telling(all_runs(groups)), "forcing"])]
    found = [["Run", "Condition", "Written", "Certain", "Choices", "Cut", "Changed"]]
    for group in groups:
        for run, rows in group.records.groupby("run", sort=False) if len(group.records) else ():
            written, certain, masked = (rows[f"{kind}_tokens"] for kind in ("written", "certain", "masked"))
            if not (certain.sum() + masked.sum() and written.sum()):
                continue
            told = not rows["changed_tokens"].isna().any()
            cut = share_of(rows.assign(cut=(rows["cut_mass"] / masked).where(masked > 0)), "cut") if told else None
            changed = pooled_of(rows["changed_tokens"], written, rows["cluster"]) if told else None
            fed = percent(pooled_of(certain, certain + written, rows["cluster"]))
            sums = f"{written.sum():,}", fed, f"{masked.sum():,}"
            found.append([str(run), named(group.labels, about), *sums, percent(cut), percent(changed)])
    return found


def moved_section(comparisons: Sequence[Comparison], records: pd.DataFrame) -> list[Section]:
    """Count what the compared mitigations moved; nothing where nothing failed."""
    rows = moved_table([one for one in comparisons if one.metric == "answer"], records)
    title = "What moved which failures"
    return [Section(title, rows=rows, note=NOTES["moved"], group=FAILURES)] if len(rows) > 1 else []


def moved_table(comparisons: Sequence[Comparison], records: pd.DataFrame) -> Rows:
    """For every failure class and comparison: before, of these right after, and in this class after."""
    pairs = [(one.mitigation, paired(*sides(one, records))) for one in comparisons]
    pairs = [(name, both) for name, both in pairs if not both[["right_before", "right_after"]].all(axis=None)]
    rows = [["Failure class", "Compared", "Before", "Of these right after", "In this class after"]]
    for kind in Failure:
        for name, both in pairs:
            before, after = both["failure_before"] == kind, both["failure_after"] == kind
            if before.any() or after.any():
                rows.append([kind, name, *_moved(both[before]), str(after.sum())])
    for name, both in pairs:
        rows.append(["all failures", name, *_moved(both[~both["right_before"]]), str((~both["right_after"]).sum())])
    for name, both in pairs:
        right = both[both["right_before"]]
        lost = counts(right.loc[~right["right_after"], "failure_after"])
        how = ", ".join(f"{kind} {count}" for kind, count in lost.items())
        said = f"lost {sum(lost.values())}" + (f": {how}" if how else "")
        rows.append(["none (right before)", name, *_moved(right), said])
    return rows


def _moved(before: pd.DataFrame) -> list[str]:
    """The number of examples, and how many are right after, with the rate as small print."""
    right = before["right_after"].astype(bool)
    if not len(right):
        return ["0", "0"]
    found = rate(right.tolist(), before["cluster"].tolist())
    return [str(len(right)), f"{right.sum()}\n{100 * found.mean:.0f} % ({interval(found.low, found.high)})"]
