"""Single steps: what right answers would be if each step failed as rarely as it does after a true past, beside what they are."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from remedy.eval.decoding.forcings import gives_half_an_action
from remedy.eval.records import baselines
from remedy.eval.records.schema import LabelValue, traced_only
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.results import by_condition
from remedy.eval.stats import apart, compound
from remedy.eval.tables.sections import WITHOUT, Section, in_order, interval, named, percent, points, telling

PARALLEL = "teacher_forced"
NOTE = (
    "Expected: (1 - h)^N, the share of traces without an error if each of N steps failed as rarely as one step does given the "
    "true past "
    "(teacher forcing): over the kinds of step that the model writes, the product of their rates, each to the power of their "
    "number in a "
    "program's trace; the mean of that over programs. What is observed below it is the cost of reading what it wrote itself. "
    "The interval "
    "of the difference takes the two as independent, and is mostly too wide. A right answer may have errors on the way, so a "
    "difference "
    "that is not below 0 does not show that nothing is lost."
)


def step_sections(name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
    """The section on single steps; none where no condition with answers is teacher-forced, too. One in which the model writes events
    and is given their lines has none: under teacher forcing the two are right or wrong together."""
    single = {_key(one): one["per_frame"] for one in conditions if one["labels"]["forcing"] == PARALLEL}
    by_run = by_condition(records) if single else {}
    about = [*dict.fromkeys([*telling(conditions), "forcing"])]
    rows = [["Run", "Condition", "Steps", "Expected", "Right", "Difference in points", WITHOUT]]
    for condition in in_order(conditions):
        steps, written, right = single.get(_key(condition), {}), condition["per_frame"], condition["right"]
        if right is None or not written or not written.keys() <= steps.keys():
            continue
        if "actions" in written and gives_half_an_action(str(condition["labels"]["forcing"])):
            continue
        traced = traced_only(by_run[condition["run"], condition["condition"]])
        counts = traced[list(written)]
        rates = [(steps[kind]["mean"], steps[kind]["low"], steps[kind]["high"]) for kind in written]
        expected, low, high = compound(counts.to_numpy(dtype=float), rates, traced["cluster"].tolist())
        difference, least, most = apart((right["mean"], right["low"], right["high"]), (expected, low, high))
        rows.append(
            [
                condition["run"],
                named(condition["labels"], about),
                f"{counts.sum(axis=1).mean():.0f}",
                f"{100 * expected:.0f} %\n{interval(low, high)}",
                percent(right),
                f"{points(difference)}\n{points(least)} to {points(most)}",
                baselines.best([condition]),
            ]
        )
    return [Section(f"{name}: what single steps come to", rows=rows, note=NOTE)] if len(rows) > 1 else []


def _key(condition: ConditionSummary) -> tuple[str, frozenset[tuple[str, LabelValue]]]:
    return condition["run"], frozenset(item for item in condition["labels"].items() if item[0] != "forcing")
