"""Why examples failed, for every diagnostic: failure classes, the operations behind them, and what moved them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from remedy.data_gen.roles import Role
from remedy.eval.records.failures import Failure
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.verdicts import Comparison, merged
from remedy.eval.stats import rate
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.eval.tables.sections import Rows, Section, in_order, interval, named, percent, telling, text, title, varying

RULES = (
    "One class for every example whose answer is wrong. Truncated: the true trace has more tokens than may be written. Runaway: the "
    "model left the truth and wrote until its tokens ran out. Else by the first frame that differs: malformed, if it is no frame; "
    "wrong action, if its event or source line differs; wrong query, if it asks for another state; wrong state, if its locals do "
    "(with the type of the first wrong variable's true value, or `names`); wrong return, if only the value does, so that no check of "
    "states sees it. A class is of one frame; of the two failures that comparisons aim at, wrong action shows as the class of that "
    "name, and lost state as wrong state or wrong return, by itself where actions are fed."
)
MOVED = (
    "On the same examples: how many failed in this way under the baseline, how many of those are right under the treatment, and how "
    "many fail in this way then. Published recovery rates are of failures only (the rows `all failures`); the rows `none` count what "
    "they leave out, the examples that were right and no longer are."
)
HAZARDS = (
    "The first error of each example, by its role. A role of which more is written has more occasions to err: rates are out of the "
    "frames, and of the role's tokens, that the model wrote up to its first error or to the end. Wilson intervals over clusters. After "
    "another occurrence: how many of these are lines that do follow the line before them, where that one stands another time."
)
OPERATIONS = ("string method", "index or slice", "loop or counter", "arithmetic", "other")
"""As `scoring.operations` has them."""
IN_STRING = "any, in a string's text"
ANOTHER = "After another occurrence"
OPERATION = "The operation of the line at which the first error stands: the first that it does of those listed."
RIGHT = "right"
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
"""Labels that a bar has one value of, however many bars there are: what is fed, and whether a trace is written at all."""


def failure_sections(name: str, conditions: Sequence[ConditionSummary]) -> list[Section]:
    """The sections on the failures of one diagnostic, and on where first errors stand; none where there are none."""
    found = []
    failed = [condition for condition in conditions if condition["right"] is not None]
    if any(condition["failures"] for condition in failed):
        found += [
            Section(
                f"{name}: failure classes",
                draw=partial(failure_classes, failed),
                note=f"{RULES} {mixed(failed)}".strip(),
            ),
            Section(f"{name}: failure classes, examples", rows=class_counts(failed)),
        ]
    operations = operation_counts(conditions)
    if len(operations) > 1:
        found.append(Section(f"{name}: failures by operation", rows=operations, note=OPERATION))
    erred = any(condition["first_errors"] for condition in conditions)
    if found or erred:
        errors = f"{name}: where the first error stands"
        found.append(Section(errors, draw=partial(first_errors, conditions), note=mixed(conditions)))
    if erred:
        found.append(Section(f"{name}: rates of first errors", rows=hazard_table(conditions), note=HAZARDS))
    return found


def failure_classes(conditions: Sequence[ConditionSummary]) -> Figure:
    """Share of examples by failure class, one bar for every condition or, if they are many, for several together."""
    counts = {
        name: _sum(RIGHT, [(one["examples"], one["failures"]) for one in group])
        for name, group in bars(conditions, telling(conditions)).items()
    }
    return plotting.stacked_shares(counts, CLASS_COLOURS, "share of examples, by failure class")


def first_errors(conditions: Sequence[ConditionSummary]) -> Figure:
    """Share of examples by the role of the first error, whether the answer was right after all or not; bars as for classes."""
    counts = {
        name: _sum("none", [(one["examples"], one["first_errors"]) for one in group])
        for name, group in bars(conditions, telling(conditions)).items()
    }
    return plotting.stacked_shares(counts, ROLE_COLOURS, "share of examples, by the role of the first error")


def bars(conditions: Sequence[ConditionSummary], names: Sequence[str]) -> dict[str, list[ConditionSummary]]:
    """The conditions of each bar, by its name: the run and the labels, without those of most values if bars are many."""
    found: dict[str, list[ConditionSummary]] = {}
    kept = told(conditions, names)
    for condition in in_order(conditions):
        said = named(condition["labels"], kept)
        found.setdefault(f"{condition['run']}, {said}" if said else condition["run"], []).append(condition)
    return found


def told(conditions: Sequence[ConditionSummary], names: Sequence[str]) -> list[str]:
    """The labels that tell bars apart: those of most values are dropped until bars are few enough, or none is left to drop."""
    kept = list(names)
    loose = [name for name in names if name not in NEVER_TOGETHER]
    while loose and len({(one["run"], named(one["labels"], kept)) for one in conditions}) > MOST_BARS:
        dropped = max(loose, key=lambda name: len({condition["labels"].get(name) for condition in conditions}))
        kept.remove(dropped)
        loose.remove(dropped)
    return kept


def mixed(conditions: Sequence[ConditionSummary]) -> str:
    """What the conditions of one bar differ in, as a sentence; empty where each has a bar."""
    names = telling(conditions)
    kept = told(conditions, names)
    lost = [name for name in names if name not in kept]
    return f"A bar holds conditions that differ in {', '.join(lost)}; the tables hold each by itself." if lost else ""


def _sum(rest: str, parts: Sequence[tuple[int, Mapping[str, int]]]) -> Mapping[str, int]:
    """Counts of several conditions together, with what they leave of their examples under `rest`."""
    total = Counter({rest: sum(examples - sum(counts.values()) for examples, counts in parts)})
    for _, counts in parts:
        total.update(counts)
    return total


def class_counts(conditions: Sequence[ConditionSummary]) -> Rows:
    """Examples by failure class, wrong states also by type of value, for every condition."""
    labels = varying(conditions)
    kinds = [kind for kind in Failure if any(kind in condition["failures"] for condition in conditions)]
    table = [["Run", *map(title, labels), "Examples", "Right", *map(str.capitalize, kinds)]]
    typed = any(condition["wrong_state_types"] for condition in conditions)
    table[0] += ["Wrong states by type"] if typed else []
    for condition in in_order(conditions):
        failed = condition["failures"]
        types = ", ".join(f"{kind} {count}" for kind, count in condition["wrong_state_types"].items())
        table.append(
            [
                condition["run"],
                *(text(condition["labels"].get(name, "")) for name in labels),
                str(condition["examples"]),
                str(condition["examples"] - sum(failed.values())),
                *(str(failed.get(kind, 0)) for kind in kinds),
                *([types] if typed else []),
            ]
        )
    return table


def operation_counts(conditions: Sequence[ConditionSummary]) -> Rows:
    """Failures by class and operation, for every condition."""
    labels = varying(conditions)
    table = [["Run", *map(title, labels), "Failure", *(name.capitalize() for name in OPERATIONS)]]
    for condition in in_order(conditions):
        about = [condition["run"], *(text(condition["labels"].get(name, "")) for name in labels)]
        for kind, found in sorted(condition["operations"].items(), key=lambda item: -sum(item[1].values())):
            table.append([*about, kind, *(str(found.get(name, 0)) for name in OPERATIONS)])
    return table


def hazard_table(conditions: Sequence[ConditionSummary]) -> Rows:
    """First errors of every role, out of frames and out of what was written of the role."""
    labels = varying(conditions)
    table = [
        ["Run", *map(title, labels), "Role", "First errors", ANOTHER, "Tokens written", "Per frame", "Per 1,000 tokens"]
    ]
    for condition in in_order(conditions):
        for role, hazard in condition["hazards"].items():
            found = hazard["per_token"]
            per_token = f"{1000 * found['mean']:.2f}\n{1000 * found['low']:.2f} to {1000 * found['high']:.2f}"
            table.append(
                [
                    condition["run"],
                    *(text(condition["labels"].get(name, "")) for name in labels),
                    role,
                    str(hazard["errors"]),
                    str(condition["followed_another"]) if role == Role.ACTION.label else "",
                    f"{hazard['tokens']:,}\nin {hazard['frames']:,} frames",
                    percent(hazard["per_frame"]),
                    per_token,
                ]
            )
        inside = str(condition["first_errors_in_string"])
        if condition["hazards"]:
            about = [condition["run"], *(text(condition["labels"].get(name, "")) for name in labels)]
            table.append([*about, IN_STRING, inside, "", "", "", ""])
    return table


def moved_section(comparisons: Sequence[Comparison], records: pd.DataFrame) -> list[Section]:
    """What the compared mitigations moved; nothing where nothing failed."""
    rows = moved_classes(comparisons, records)
    return [Section("What moved which failures", rows=rows, note=MOVED)] if len(rows) > 1 else []


def moved_classes(comparisons: Sequence[Comparison], records: pd.DataFrame) -> Rows:
    """For every failure class and comparison: before, of these right after, and in this class after."""
    pairs = [(comparison.mitigation, merged(comparison, records)) for comparison in comparisons]
    pairs = [(name, both) for name, both in pairs if not both[["right_before", "right_after"]].all(axis=None)]
    table = [["Failure class", "Compared", "Before", "Of these right after", "In this class after"]]
    for kind in Failure:
        for name, both in pairs:
            before, after = both["failure_before"] == kind, both["failure_after"] == kind
            if before.any() or after.any():
                table.append([kind, name, *_moved(both[before], int(after.sum()))])
    for name, both in pairs:
        failed = both[~both["right_before"]]
        table.append(["all failures", name, *_moved(failed, int((~both["right_after"]).sum()))])
    for name, both in pairs:
        right = both[both["right_before"]]
        lost = right[~right["right_after"]]["failure_after"].value_counts()
        kept = f"{len(right) - lost.sum()}{_share(right['right_after'], right['cluster'])}"
        how = ", ".join(f"{kind} {count}" for kind, count in lost.items())
        table.append(
            ["none (right before)", name, str(len(right)), kept, f"lost {lost.sum()}" + (f": {how}" if how else "")]
        )
    return table


def _moved(before: pd.DataFrame, after: int) -> list[str]:
    right = before["right_after"]
    return [str(len(before)), f"{int(right.sum())}{_share(right, before['cluster'])}", str(after)]


def _share(outcomes: pd.Series, clusters: pd.Series) -> str:
    """The rate as small print, or nothing of nothing."""
    if not len(outcomes):
        return ""
    found = rate(outcomes.astype(bool).tolist(), clusters.tolist())
    return f"\n{100 * found.mean:.0f} % ({interval(found.low, found.high)})"
