"""The failures of every diagnostic: classes, operations behind them, first errors, constraints, and what a mitigation moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure, WrongAction
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison
from remedy.eval.report.verdicts import merged
from remedy.eval.stats import rate
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.eval.tables.sections import (
    FAILURES,
    Group,
    Rows,
    Section,
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
    from matplotlib.figure import Figure

RULES = (
    "One class for every example whose answer is wrong. Truncated: the true trace has more tokens than may be written. Runaway: the "
    "model left the truth and wrote until its tokens ran out. Else by the first frame that differs: malformed, if it is no frame; "
    "wrong action, if its event or source line differs; wrong query, if it asks for another state; wrong state, if its locals do "
    "(with the type of the first wrong variable's true value, or `names`); wrong return, if only the value does."
)
MOVED = (
    "On the same examples: how many failed in this way under the baseline, how many of those are right under the treatment, and how "
    "many fail in this way then. Published recovery rates are of failures only (the rows `all failures`); the rows `none` count what "
    "they leave out, the examples that were right and no longer are."
)
HAZARDS = (
    "The first error of each example, by its role. A role of which more is written has more occasions to err: rates are out of the "
    "frames, and of the role's tokens, that the model wrote up to its first error or to the end. Wilson intervals over clusters; of "
    "several runs, the mean. After another occurrence: lines that do follow the line before them, where that one stands another time."
)
EFFECT = (
    "Written: tokens that the model wrote. Certain: tokens that could be no others, which were fed without asking it, as a "
    "share of all "
    "tokens of the traces. Choices: tokens chosen among several that were allowed. Cut: the probability that the model gave to all "
    "others there. Changed: share of the tokens it wrote that are not its likeliest. A server tells neither of the last two."
)
ACTIONS = (
    "First errors that are an event or a source line, by what the program's control flow says of them after the true frames before. "
    "Outside: the code does not allow them there whatever its variables are, and a constraint makes them impossible. Allowed: values "
    "decide. Against the written state: evaluating the line on the states that were written says another."
)
OPERATION = "The operation of the line at which the first error stands: the first that it does of those listed."
IN_STRING, ANOTHER, RIGHT = "any, in a string's text", "After another occurrence", "right"
CLASS_COLOURS = {
    RIGHT: "#DDDDDD",
    Failure.TRUNCATED: "#7F7F7F",
    Failure.RUNAWAY: "#000000",
    Failure.MALFORMED: "#E69F00",
    Failure.WRONG_ACTION: "#D55E00",
    Failure.WRONG_QUERY: "#CC79A7",
    Failure.WRONG_STATE: "#0072B2",
    Failure.WRONG_RETURN: "#009E73",
}
MOST_BARS = 24
"""A figure with more bars puts conditions together."""
NEVER_TOGETHER = ("forcing", "answer_only")
"""Labels that a bar has one value of, however many bars there are."""


def failure_sections(name: str, conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> list[Section]:
    """The sections on the failures of one diagnostic, and on where first errors stand; none where there are none."""
    groups = grouped(conditions, variants)
    scored = [group for group in groups if group.runs[0]["right"] is not None]
    found = []
    if any(group.counts("failures") for group in scored):
        note = f"{RULES} {mixed(scored)}".strip()
        found.append(Section(f"{name}: failure classes", draw=partial(class_figure, scored), note=note))
        found.append(Section(f"{name}: failure classes, examples", rows=class_table(scored)))
    operations = operation_table(groups)
    if len(operations) > 1 and len(operations[0]) > 3:
        found.append(Section(f"{name}: failures by operation", rows=operations, note=OPERATION))
    if any(group.counts("first_errors") for group in groups):
        title = f"{name}: where the first error stands"
        found.append(Section(title, draw=partial(error_figure, groups), note=mixed(groups)))
        found.append(Section(f"{name}: rates of first errors", rows=hazard_table(groups), note=HAZARDS))
    held = [group for group in groups if group.runs[0]["constraint"] is not None]
    if held:
        found.append(Section(f"{name}: what constraints cut", rows=constraint_table(held), note=EFFECT))
    if any(group.counts("wrong_actions") for group in groups):
        kinds = {kind.capitalize(): partial(_count, "wrong_actions", kind) for kind in WrongAction}
        wrong = [group for group in groups if group.counts("wrong_actions")]
        rows = table(wrong, {"Examples": _examples, **kinds})
        found.append(Section(f"{name}: wrong actions by control flow", rows=rows, note=ACTIONS))
    return [section._replace(group=FAILURES) for section in found]


def _examples(group: Group) -> str:
    return f"{group.total('examples'):,}"


def _count(key: str, kind: str, group: Group) -> str:
    return f"{group.counts(key).get(kind, 0):,}"


def class_figure(groups: Sequence[Group]) -> Figure:
    """Share of examples by failure class, a bar for every condition or, if they are many, for several together."""
    return _shares(groups, "failures", RIGHT, CLASS_COLOURS, "share of examples, by failure class")


def error_figure(groups: Sequence[Group]) -> Figure:
    """Share of examples by the role of the first error, whether the answer was right after all or not; bars as for classes."""
    return _shares(groups, "first_errors", "none", ROLE_COLOURS, "share of examples, by the role of the first error")


def _shares(groups: Sequence[Group], key: str, rest: str, colours: Mapping[str, str], what: str) -> Figure:
    from remedy.eval.tables import plotting

    counts: dict[str, dict[str, int]] = {}
    for name, mine in bars(groups).items():
        total = counts.setdefault(name, {rest: 0})
        for group in mine:
            found = group.counts(key)
            total[rest] += group.total("examples") - sum(found.values())
            for kind, count in found.items():
                total[kind] = total.get(kind, 0) + count
    return plotting.stacked_shares(counts, colours, what)


def bars(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each bar, by its name: the recipe and the labels, without those of most values if bars are many."""
    found: dict[str, list[Group]] = {}
    kept = _told(groups)
    for group in groups:
        said = named(group.labels, kept)
        found.setdefault(f"{group.variant}, {said}" if said else group.variant, []).append(group)
    return found


def _conditions(groups: Sequence[Group]) -> list[ConditionSummary]:
    return [run for group in groups for run in group.runs]


def _told(groups: Sequence[Group]) -> list[str]:
    """The labels that tell bars apart: those of most values are dropped until bars are few enough, or none is left to drop."""
    kept = telling(_conditions(groups))
    loose = [name for name in kept if name not in NEVER_TOGETHER]
    while loose and len({(group.variant, named(group.labels, kept)) for group in groups}) > MOST_BARS:
        dropped = max(loose, key=lambda name: len({group.labels.get(name) for group in groups}))
        kept.remove(dropped)
        loose.remove(dropped)
    return kept


def mixed(groups: Sequence[Group]) -> str:
    """A sentence on the labels in which the conditions of one bar differ; empty where each has a bar."""
    kept = _told(groups)
    lost = [name for name in telling(_conditions(groups)) if name not in kept]
    return f"A bar holds conditions that differ in {', '.join(lost)}; the tables hold each by itself." if lost else ""


def class_table(groups: Sequence[Group]) -> Rows:
    """Examples by failure class, wrong states also by type of value, for every condition, all seeds together."""

    def types(group: Group) -> str:
        counts = sorted(group.counts("wrong_state_types").items(), key=lambda item: -item[1])
        return ", ".join(f"{kind} {count:,}" for kind, count in counts)

    def right(group: Group) -> str:
        return f"{group.total('examples') - sum(group.counts('failures').values()):,}"

    columns: dict[str, Callable[[Group], str]] = {
        "Examples": _examples,
        "Right": right,
        **{kind.capitalize(): partial(_count, "failures", kind) for kind in Failure},
        "Wrong states by type": types,
    }
    return table(groups, columns)


def operation_table(groups: Sequence[Group]) -> Rows:
    """Failures by class and operation, for every condition; empty where all are of one operation."""
    counted = []
    for group in groups:
        kinds: dict[str, dict[str, int]] = {}
        for run in group.runs:
            for kind, found in run["operations"].items():
                for name, count in found.items():
                    kinds.setdefault(kind, {})[name] = kinds.setdefault(kind, {}).get(name, 0) + count
        counted += [
            (group, kind, found) for kind, found in sorted(kinds.items(), key=lambda item: -sum(item[1].values()))
        ]
    names = list(dict.fromkeys(name for _, _, found in counted for name in found))
    if len(names) < 2:
        return [[]]
    about = telling(_conditions(groups))
    rows = [["Recipe", "Condition", "Failure", *(name.capitalize() for name in names)]]
    for group, kind, found in counted:
        counts = [str(found.get(name, 0)) for name in names]
        rows.append([group.variant, named(group.labels, about), kind, *counts])
    return tidied(rows)


def hazard_table(groups: Sequence[Group]) -> Rows:
    """First errors of every role, out of frames and out of what was written of the role; roles without an error are left out."""
    about = telling(_conditions(groups))
    rows = [["Recipe", "Condition", "Role", "First errors", ANOTHER, "Tokens written", "Per frame", "Per 1,000 tokens"]]
    for group in groups:
        roles = list(dict.fromkeys(role for run in group.runs for role in run["hazards"]))
        for role in roles:
            found = [run["hazards"][role] for run in group.runs if role in run["hazards"]]
            errors = sum(one["errors"] for one in found)
            if not errors:
                continue
            each = [1000 * one["per_token"]["mean"] for one in found]
            per_token = f"{sum(each) / len(each):.2f}"
            if len(found) == 1:
                low, high = (1000 * found[0]["per_token"][end] for end in ("low", "high"))
                per_token += f"\n{low:.2f} to {high:.2f}"
            followed = f"{group.total('followed_another'):,}" if role == Role.ACTION.label else ""
            tokens, frames = (sum(one[key] for one in found) for key in ("tokens", "frames"))
            rows.append(
                [
                    *(group.variant, named(group.labels, about), role, f"{errors:,}", followed),
                    *(f"{tokens:,}\nin {frames:,} frames", mean_of([one["per_frame"] for one in found]), per_token),
                ]
            )
        inside = group.total("first_errors_in_string")
        if inside:
            rows.append([group.variant, named(group.labels, about), IN_STRING, f"{inside:,}", "", "", "", ""])
    return tidied(rows)


def constraint_table(groups: Sequence[Group]) -> Rows:
    """The effect of a constraint, a row for every constrained condition of every run."""
    rows = [["Run", "Condition", "Written", "Certain", "Choices", "Cut", "Changed"]]
    about = [*dict.fromkeys([*telling(_conditions(groups)), "forcing"])]
    for run in _conditions(groups):
        effect = run["constraint"]
        if effect is not None:
            shares = percent(effect["certain_share"]), percent(effect["cut"]), percent(effect["changed"])
            counts = f"{effect['written']:,}", shares[0], f"{effect['masked']:,}"
            rows.append([run["run"], named(run["labels"], about), *counts, *shares[1:]])
    return rows


def moved_section(comparisons: Sequence[Comparison], records: pd.DataFrame) -> list[Section]:
    """Count what the compared mitigations moved; nothing where nothing failed."""
    rows = moved_table([one for one in comparisons if one.metric == "answer"], records)
    title = "What moved which failures"
    return [Section(title, rows=rows, note=MOVED, group=FAILURES)] if len(rows) > 1 else []


def moved_table(comparisons: Sequence[Comparison], records: pd.DataFrame) -> Rows:
    """For every failure class and comparison: before, of these right after, and in this class after."""
    pairs = [(comparison.mitigation, merged(comparison, records)) for comparison in comparisons]
    pairs = [(name, both) for name, both in pairs if not both[["right_before", "right_after"]].all(axis=None)]
    rows = [["Failure class", "Compared", "Before", "Of these right after", "In this class after"]]
    for kind in Failure:
        for name, both in pairs:
            before, after = both["failure_before"] == kind, both["failure_after"] == kind
            if before.any() or after.any():
                rows.append([kind, name, *_moved(both[before], int(after.sum()))])
    for name, both in pairs:
        failed = both[~both["right_before"]]
        rows.append(["all failures", name, *_moved(failed, int((~both["right_after"]).sum()))])
    for name, both in pairs:
        right = both[both["right_before"]]
        lost = right[~right["right_after"]]["failure_after"].value_counts()
        kept = f"{len(right) - lost.sum()}{_share(right['right_after'], right['cluster'])}"
        how = ", ".join(f"{kind} {count}" for kind, count in lost.items())
        said = f"lost {lost.sum()}" + (f": {how}" if how else "")
        rows.append(["none (right before)", name, str(len(right)), kept, said])
    return rows


def _moved(before: pd.DataFrame, after: int) -> list[str]:
    right = before["right_after"]
    return [str(len(before)), f"{int(right.sum())}{_share(right, before['cluster'])}", str(after)]


def _share(outcomes: pd.Series, clusters: pd.Series) -> str:
    """The rate as small print, or nothing of nothing."""
    if not len(outcomes):
        return ""
    found = rate(outcomes.astype(bool).tolist(), clusters.tolist())
    return f"\n{100 * found.mean:.0f} % ({interval(found.low, found.high)})"
