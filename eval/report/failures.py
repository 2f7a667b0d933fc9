"""The failures of every diagnostic: classes, operations behind them, first errors, constraints, and what a mitigation moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure
from remedy.eval.records.schema import OUT_OF
from remedy.eval.records.summary import counts, pooled_of
from remedy.eval.report.groups import Group, starts, table
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import Verdict
from remedy.eval.stats import Estimate
from remedy.eval.tables.sections import FAILURES, Rows, Section, mean_of, tidied

IN_STRING, ANOTHER = "any, in a string's text", "After another occurrence"


def failure_sections(name: str, groups: Sequence[Group]) -> list[Section]:
    """The sections on the failures of one diagnostic, and on where first errors stand; none where there are none."""
    scored = [group for group in groups if group.scored]
    operations = sorted({kind for group in scored for kind in group.counts("operation")})
    actions = sorted({kind for group in groups for kind in group.counts("wrong_action")})
    tables = {
        "failure classes": (class_table(scored) if any(group.counts("failure") for group in scored) else [], "classes"),
        "failures by operation": (
            count_table(scored, "operation", operations) if len(operations) > 1 else [],
            "operations",
        ),
        "first errors by role": (hazard_table(groups), "hazards"),
        "wrong actions by control flow": (count_table(groups, "wrong_action", actions), "actions"),
        "what constraints cut": (constraint_table(groups), "constraint"),
    }
    return [
        Section(f"{name}: {said}", rows=rows, note=NOTES[note], group=FAILURES)
        for said, (rows, note) in tables.items()
        if len(rows) > 1
    ]


def count_table(groups: Sequence[Group], column: str, kinds: Sequence[str]) -> Rows:
    """Examples by the values of a column, of the groups that have any."""

    def count(kind: str, group: Group) -> str:
        return f"{group.counts(column).get(kind, 0):,}"

    columns = {kind.capitalize(): partial(count, kind) for kind in kinds}
    return table([group for group in groups if group.counts(column)], {"Examples": _examples, **columns})


def class_table(groups: Sequence[Group]) -> Rows:
    """Examples by failure class, wrong states also by type of value, for every condition, all seeds together."""

    def count(kind: str, group: Group) -> str:
        return f"{(group.records['failure'] == kind).sum():,}"

    def types(group: Group) -> str:
        wrong = group.records[group.records["failure"] == Failure.WRONG_STATE]
        return ", ".join(f"{kind} {number:,}" for kind, number in counts(wrong["value_type"]).items())

    columns: dict[str, Callable[[Group], object]] = {"Examples": _examples, "Right": partial(count, "")}
    columns |= {kind.capitalize(): partial(count, kind) for kind in Failure}
    return table(groups, {**columns, "Wrong states by type": types})


def _examples(group: Group) -> str:
    return f"{group.total('examples'):,}"


def hazard_table(groups: Sequence[Group]) -> Rows:
    """First errors of every role, out of frames and out of what was written of the role; roles without an error are left out."""
    rows = [["Recipe", "Condition", "Role", "First errors", ANOTHER, "Tokens written", "Per frame", "Per 1,000 tokens"]]
    for start, group in zip(starts(groups), groups):
        for role, column in OUT_OF.items():
            errors = int((group.records["first_error_role"] == role.label).sum())
            if errors and group.records[column].sum():
                another = f"{group.records['followed_another'].sum():,}" if role is Role.ACTION else ""
                rows.append([*start, role.label, f"{errors:,}", another, *_hazard(group.records, role, column)])
        if inside := int(group.records["first_error_in_string"].sum()):
            rows.append([*start, IN_STRING, f"{inside:,}", "", "", "", ""])
    return tidied(rows)


def _hazard(records: pd.DataFrame, role: Role, column: str) -> list[str]:
    """The tokens that were written of a role, and first errors out of frames and out of these, of the runs that wrote any."""
    records = records.assign(
        error=records["first_error_role"] == role.label,
        seen=records["frames_right"] + (records["first_error_frame"] >= 0),
    )
    runs = [mine for _, mine in records.groupby("run", sort=False) if mine[column].sum()]
    rates: list[list[Estimate]] = [
        [pooled_of(mine["error"], mine[of], mine["cluster"]) for mine in runs] for of in ("seen", column)
    ]
    per_token = [one.mean for one in rates[1]]
    tokens, frames = (sum(int(mine[of].sum()) for mine in runs) for of in (column, "seen"))
    return [f"{tokens:,}\nin {frames:,} frames", mean_of(rates[0]), f"{1000 * sum(per_token) / len(per_token):.2f}"]


def constraint_table(groups: Sequence[Group]) -> Rows:
    """The effect of a constraint, a row for every constrained condition."""
    shown = [group for group in groups if group.records[["certain_tokens", "masked_tokens"]].to_numpy().any()]

    def total(column: str, group: Group) -> str:
        return f"{group.records[column].sum():,}"

    def share(part: str, of: Sequence[str], group: Group) -> str:
        whole = group.records[list(of)].to_numpy().sum()
        told = whole and not group.records[part].isna().any()
        return f"{100 * group.records[part].sum() / whole:.0f} %" if told else ""

    columns: dict[str, Callable[[Group], object]] = {
        "Written": partial(total, "written_tokens"),
        "Certain": partial(share, "certain_tokens", ["certain_tokens", "written_tokens"]),
        "Choices": partial(total, "masked_tokens"),
        "Cut": partial(share, "cut_mass", ["masked_tokens"]),
        "Changed": partial(share, "changed_tokens", ["written_tokens"]),
    }
    return table(shown, columns)


def moved_sections(verdicts: Sequence[Verdict]) -> list[Section]:
    """Count what the compared mitigations moved; nothing where nothing failed."""
    rows = [["Compared", "Class with the baseline", "Examples", "Of these right with it", "Still in this class"]]
    for item in verdicts:
        if item.comparison.metric == "answer" and not set(item.moved.index) | set(item.moved) <= {""}:
            table_ = item.moved.reindex(columns=["", *filter(None, item.moved)], fill_value=0)
            for kind in [*(kind for kind in Failure if kind in table_.index), *([""] if "" in table_.index else [])]:
                mine = table_.loc[kind]
                right = f"{mine['']:,}\n{mine[''] / mine.sum():.0%}"
                still = f"{mine.get(kind, 0):,}" if kind else ""
                rows.append([item.comparison.mitigation, kind or "right", f"{mine.sum():,}", right, still])
    note = NOTES["moved"]
    return [Section("What moved which failures", rows=rows, note=note, group=FAILURES)] if len(rows) > 1 else []
