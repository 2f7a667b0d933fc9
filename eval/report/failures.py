"""Report sections on failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure
from remedy.eval.records.schema import OUT_OF
from remedy.eval.records.summary import counts, pooled_of
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import Verdict
from remedy.eval.tables.groups import Group, row_starts, table
from remedy.eval.tables.sections import FAILURES, Rows, Section, mean_of, tidied

IN_STRING, ANOTHER = "any, in a string's text", "After another occurrence"


def failure_sections(name: str, groups: Sequence[Group]) -> list[Section]:
    scored = [group for group in groups if group.scored]
    tables = {
        "failure classes": (class_table(scored) if any(group.counts("failure") for group in scored) else [], "classes"),
        "failures by operation": (count_table(scored, "operation"), "operations"),
        "first errors by role": (hazard_table(groups), "hazards"),
        "wrong actions by control flow": (count_table(groups, "wrong_action"), "actions"),
        "what constraints cut": (constraint_table(groups), "constraint"),
    }
    return [
        Section(f"{name}: {title}", rows=rows, note=NOTES[note], group=FAILURES)
        for title, (rows, note) in tables.items()
        if len(rows) > 1
    ]


def count_table(groups: Sequence[Group], column: str) -> Rows:
    def count(kind: str, group: Group) -> str:
        return f"{group.counts(column).get(kind, 0):,}"

    groups = [group for group in groups if group.counts(column)]
    kinds = sorted({kind for group in groups for kind in group.counts(column)})
    return table(groups, {"Examples": _examples, **{kind.capitalize(): partial(count, kind) for kind in kinds}})


def class_table(groups: Sequence[Group]) -> Rows:
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
    rows = [["Recipe", "Condition", "Role", "First errors", ANOTHER, "Tokens written", "Per frame", "Per 1,000 tokens"]]
    for start, group in zip(row_starts(groups), groups):
        for role, column in OUT_OF.items():
            errors = int((group.records["first_error_role"] == role.label).sum())
            if errors and group.records[column].sum():
                after_another = f"{group.records['followed_another'].sum():,}" if role is Role.ACTION else ""
                rows.append([*start, role.label, f"{errors:,}", after_another, *_hazard(group.records, role, column)])
        if in_string := int(group.records["first_error_in_string"].sum()):
            rows.append([*start, IN_STRING, f"{in_string:,}", "", "", "", ""])
    return tidied(rows)


def _hazard(records: pd.DataFrame, role: Role, column: str) -> list[str]:
    """Write a role's tokens, and its first errors per frame and per token."""
    records = records.assign(
        error=records["first_error_role"] == role.label,
        # A trace has its first error once: frames after it are no occasions.
        seen=records["frames_right"] + (records["first_error_frame"] >= 0),
    )
    runs = [run for _, run in records.groupby("run", sort=False) if run[column].sum()]
    per_frame, per_token = (
        [pooled_of(run["error"], run[tries], run["cluster"]) for run in runs] for tries in ("seen", column)
    )
    tokens, frames = (sum(int(run[tries].sum()) for run in runs) for tries in (column, "seen"))
    per_thousand = 1000 * sum(estimate.mean for estimate in per_token) / len(per_token)
    return [f"{tokens:,}\nin {frames:,} frames", mean_of(per_frame), f"{per_thousand:.2f}"]


def constraint_table(groups: Sequence[Group]) -> Rows:
    constrained = [group for group in groups if group.records[["certain_tokens", "masked_tokens"]].to_numpy().any()]

    def total(column: str, group: Group) -> str:
        return f"{group.records[column].sum():,}"

    def share(part: str, whole_columns: Sequence[str], group: Group) -> str:
        whole = group.records[list(whole_columns)].to_numpy().sum()
        known = whole and not group.records[part].isna().any()
        return f"{100 * group.records[part].sum() / whole:.0f} %" if known else ""

    columns: dict[str, Callable[[Group], object]] = {
        "Written": partial(total, "written_tokens"),
        "Certain": partial(share, "certain_tokens", ["certain_tokens", "written_tokens"]),
        "Choices": partial(total, "masked_tokens"),
        "Cut": partial(share, "cut_mass", ["masked_tokens"]),
        "Changed": partial(share, "changed_tokens", ["written_tokens"]),
    }
    return table(constrained, columns)


def moved_sections(verdicts: Sequence[Verdict]) -> list[Section]:
    rows = [["Compared", "Class with the baseline", "Examples", "Of these right with it", "Still in this class"]]
    for verdict in verdicts:
        if verdict.comparison.metric == "answer" and not set(verdict.moved.index) | set(verdict.moved) <= {""}:
            moved = verdict.moved.reindex(columns=["", *filter(None, verdict.moved)], fill_value=0)
            for kind in [kind for kind in (*Failure, "") if kind in moved.index]:
                after = moved.loc[kind]
                right = f"{after['']:,}\n{after[''] / after.sum():.0%}"
                still = f"{after.get(kind, 0):,}" if kind else ""
                rows.append([verdict.comparison.mitigation, kind or "right", f"{after.sum():,}", right, still])
    note = NOTES["moved"]
    return [Section("What moved which failures", rows=rows, note=note, group=FAILURES)] if len(rows) > 1 else []
