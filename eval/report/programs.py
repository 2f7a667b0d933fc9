"""What the report says of the `code` diagnostic: metrics, failure classes, where they arise, and what moved them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from remedy.eval.failures import UNTRACED
from remedy.eval.failures import Failure as CLASSES
from remedy.eval.report.plotting import CLASS_COLOURS, legend, panels, rate_line, runs, stacked_shares
from remedy.eval.report.sections import Section
from remedy.eval.report.verdicts import COST, VARIED, Comparison, merged, rank
from remedy.eval.scoring.operations import OPERATIONS
from remedy.eval.stats import mean, rate

LABELS = ("run", "benchmark", "rewrite", "spacing", "locals", "strings", "forcing")
_NAMES = {"run": "Run", "benchmark": "Programs", "spacing": "Spacing", "locals": "Locals", "forcing": "Forcing"}
_PUBLISHED = [
    ("Answer right", "88.0%"),
    ("Valid format", "99.6%"),
    ("State exact", "96.9%"),
    ("Action exact", "96.5%"),
    ("Variables", "99.1%"),
    ("With values", "98.1%"),
    ("Tokens a state", "11.7"),
    ("Tokens an action", "11.2"),
]
"""The 32B model's figures on CruxEval, tracing freely."""

_SHARES = {"state_exact": "states", "action_exact": "actions", "key_match": "states", "key_value_match": "states"}
"""Shares of a trace's frames, and the column that counts those frames."""

RULES = (
    "One class for every example whose answer is wrong. Truncated: the true trace has more tokens than may be written. Runaway: the "
    "model left the truth and wrote until its tokens ran out. Else by the first frame that differs: malformed, if it is no frame; "
    "wrong action, if its event or source line differs; wrong state, if its locals do (with the type of the first wrong variable's "
    "true value, or `names`); wrong return, if only the value does, so that no check of states sees it."
)


def left_out(records: pd.DataFrame) -> str:
    """Which programs could not be run, by outcome, in words; empty if all could."""
    if "failure" not in records:
        return ""
    found = records[records["failure"] == UNTRACED].drop_duplicates(["benchmark", "source"])["outcome"].value_counts()
    return ", ".join(f"{outcome} {count}" for outcome, count in found.items())


def code_sections(records: pd.DataFrame, comparisons: Sequence[Comparison], untraced: str) -> list[Section]:
    """The sections on programs traced as code; none where no record is of them. `untraced`: what `left_out` says of them."""
    rows = in_order(records)
    if rows.empty:
        return [Section("Programs traced as code", rows=[["No program could be run"], [untraced]])] if untraced else []
    found = [
        Section(
            "Programs traced as code",
            rows=metrics(rows),
            note="Rates with Wilson intervals. State, action and variable matches are shares of a trace's frames, averaged over "
            "traces, with t intervals; a program that is not decoded counts as nothing right. Programs ran on "
            + "; ".join(sorted({f"{p} ({i})" for p, i in zip(rows["python"], rows["isolation"])}))
            + "."
            + (f" Left out, since they could not be run: {untraced}." if untraced else ""),
        ),
        Section("Failure classes", figure=failure_classes, note=RULES),
        Section("Failure classes, examples", rows=class_counts(rows)),
    ]
    grid = operations(rows)
    if len(grid) > 1:
        note = "The operation is the departing line's: the first that it does of those listed. Free and action-forced traces."
        found.append(Section("Failures by operation", rows=grid, note=note))
    moved = moved_classes(records, comparisons)
    if len(moved) > 1:
        note = (
            "On the same examples: how many failed in this way under the baseline, how many of those are right under the "
            "treatment, and how many fail in this way then. Published recovery rates are of failures only (the rows `all "
            "failures`); the rows `none` count what they leave out, the examples that were right and no longer are."
        )
        found.append(Section("What moved which failures", rows=moved, note=note))
    found.append(
        Section("Programs traced as code: accuracy by tokens of the true trace", figure=accuracy_by_trace_tokens)
    )
    return found


def in_order(records: pd.DataFrame) -> pd.DataFrame:
    """The records of real programs, in the order of their runs, plain free traces first."""
    rows = records[records["diagnostic"] == "code"]
    if rows.empty:
        return rows
    names = runs(records)
    keys = [
        (names.index(row["run"]), row["benchmark"], *rank(row))
        for row in rows[["run", "benchmark", *VARIED]].to_dict("records")
    ]
    return rows.iloc[sorted(range(len(rows)), key=keys.__getitem__)]


def metrics(rows: pd.DataFrame) -> list[list[str]]:
    """One line for every condition, and the published one beside CruxEval's."""
    labels = [label for label in LABELS if label in ("run", "benchmark", "forcing") or rows[label].nunique() > 1]
    table = [
        [*(_NAMES.get(label, label.capitalize()) for label in labels), "Examples", *(name for name, _ in _PUBLISHED)]
    ]
    for values, group in rows.groupby(labels, sort=False):
        states, actions = group["states"].sum(), group["actions"].sum()
        table.append(
            [
                *map(str, values),
                str(len(group)),
                *(_rate(group[column]) for column in ("final_right", "valid_format")),
                *(_mean(group[column]) if group[of].sum() else "" for column, of in _SHARES.items()),
                f"{group['tokens_state'].sum() / states:.1f}" if states else "",
                f"{group['tokens_action'].sum() / actions:.1f}" if actions else "",
            ]
        )
    published = {"run": "facebook/cwm 32B, published", "benchmark": "cruxeval", "forcing": "free", "rewrite": "none"}
    if (rows["benchmark"] == "cruxeval").any():
        table.append([*(published.get(label, "") for label in labels), "800", *(value for _, value in _PUBLISHED)])
    return table


def class_counts(rows: pd.DataFrame) -> list[list[str]]:
    """Examples by failure class, wrong states also by type of value, for every condition."""
    table = [["Run", "Programs", "Rewrite", "Forcing", "Right", *CLASSES, "Wrong states by type"]]
    for values, group in rows.groupby(["run", "benchmark", "rewrite", "forcing"], sort=False):
        counts = group["failure"].value_counts()
        types = group[group["failure"] == "wrong state"]["value_type"].value_counts()
        table.append(
            [
                *map(str, values),
                str(int(group["final_right"].sum())),
                *(str(counts.get(name, 0)) for name in CLASSES),
                ", ".join(f"{kind} {count}" for kind, count in types.items()),
            ]
        )
    return table


def operations(rows: pd.DataFrame) -> list[list[str]]:
    """Failure class by the operation of the departing line, for every run."""
    failed = rows[(rows["operation"] != "") & (rows["forcing"] != "direct") & (rows["rewrite"] == "none")]
    table = [["Run", "Forcing", "Failure", *OPERATIONS]]
    detail = failed["failure"].where(failed["failure"] != "wrong state", "wrong state: " + failed["value_type"])
    for values, group in failed.groupby(["run", "forcing", detail], sort=False):
        counts = group["operation"].value_counts()
        table.append([*map(str, values), *(str(counts.get(name, 0)) for name in OPERATIONS)])
    return [table[0], *sorted(table[1:], key=lambda line: (line[0], line[1], -sum(map(int, line[3:]))))]


def moved_classes(records: pd.DataFrame, comparisons: Sequence[Comparison]) -> list[list[str]]:
    """For every failure class and comparison on real programs: before, of these right after, and in this class after."""
    pairs = [(comparison.mitigation, merged(comparison, records)) for comparison in comparisons]
    pairs = [(name, both) for name, both in pairs if "failure_before" in both and both[_CLASSED].notna().all(axis=None)]
    table = [["Failure class", "Mitigation", "Before", "Of these right after", "In this class after"]]
    for kind in CLASSES:
        for name, both in pairs:
            before, after = both["failure_before"] == kind, both["failure_after"] == kind
            if before.any() or after.any():
                table.append([kind, name, *_moved(both[before], int(after.sum()))])
    for name, both in pairs:
        failed = both[~both["final_right_before"]]
        table.append(["all failures", name, *_moved(failed, int((~both["final_right_after"]).sum()))])
    for name, both in pairs:
        right = both[both["final_right_before"]]
        lost = right[~right["final_right_after"]]["failure_after"].value_counts()
        kept = f"{len(right) - lost.sum()}{_share(right['final_right_after'])}"
        how = ", ".join(f"{kind} {count}" for kind, count in lost.items())
        table.append(
            ["none (right before)", name, str(len(right)), kept, f"lost {lost.sum()}" + (f": {how}" if how else "")]
        )
    return table


_CLASSED = ["failure_before", "failure_after"]


def _moved(before: pd.DataFrame, after: int) -> list[str]:
    right = before["final_right_after"]
    return [str(len(before)), f"{int(right.sum())}{_share(right)}", str(after)]


def _share(outcomes: pd.Series) -> str:
    """The rate in parentheses, or nothing of nothing."""
    if not len(outcomes):
        return ""
    found = rate(outcomes.astype(bool).tolist())
    return f" ({found.mean:.1%}; {found.low:.1%} to {found.high:.1%})"


def failure_classes(records: pd.DataFrame) -> Figure | None:
    """Share of examples by failure class, one bar for every condition."""
    rows = in_order(records)
    if rows.empty:
        return None
    labels = [label for label in LABELS if label in ("run", "forcing") or rows[label].nunique() > 1]
    names = rows[labels].astype(str).agg(", ".join, axis=1)
    return stacked_shares(names, rows["failure"].replace("", "right"), CLASS_COLOURS, "share of programs")


def accuracy_by_trace_tokens(records: pd.DataFrame) -> Figure | None:
    """Share of right answers by tokens of the program's true trace, in powers of two; one panel for every forcing."""
    rows = in_order(records)
    if rows.empty:
        return None
    rows = rows[rows["rewrite"] == rows["rewrite"].iloc[0]]
    full = rows[rows["forcing"] != "direct"]
    if full.empty:
        return None
    cost = full.assign(cost=full[list(COST)].sum(axis=1)).groupby("example")["cost"].max()
    rows = rows.assign(cost=rows["example"].map(cost))
    rows = rows[rows["cost"] > 0]
    if rows.empty:
        return None
    rows = rows.assign(bin=rows["cost"].map(lambda tokens: 2 ** (int(tokens).bit_length() - 1)))
    forcings = list(dict.fromkeys(rows["forcing"]))
    figure, axes = panels(len(forcings))
    names = runs(records)
    for panel, forcing in zip(axes, forcings):
        for run in dict.fromkeys(rows["run"]):
            line = rows[(rows["run"] == run) & (rows["forcing"] == forcing)]
            rate_line(panel, line, "bin", run, names.index(run))
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.set(xlabel="tokens of the true trace, from", ylim=(-0.03, 1.03), title=forcing.replace("_", "-"))
    axes[0].set_ylabel("answer right")
    legend(figure, axes[0])
    return figure


def _rate(outcomes: pd.Series) -> str:
    found = rate(outcomes.astype(bool).tolist())
    return f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%})"


def _mean(values: pd.Series) -> str:
    found = mean(values.tolist())
    return f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%})"
