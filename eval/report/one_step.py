"""Where states or values are fed, what is right step by step; and what the same steps come to where the model reads its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from remedy.eval import baselines, plotting
from remedy.eval.colours import COLOURS
from remedy.eval.decoding import gives_half_an_action
from remedy.eval.plotting import LINES
from remedy.eval.records import LabelValue, traced_only
from remedy.eval.sections import (
    WITHOUT,
    Rows,
    Section,
    in_order,
    interval,
    named,
    percent,
    points,
    telling,
    text,
    title,
    varying,
)
from remedy.eval.stats import compound
from remedy.eval.summary import ConditionSummary

PARALLEL = "teacher_forced"
RATES = (
    "Where states or values are fed, the answer is read from what was given, and whether it is right is undefined. Instead: the shares "
    "of all states, actions and returned or raised values that are right given what was fed, with Wilson intervals over clusters. "
    "Nothing stands where all of a kind was fed."
)
COMPOUND = (
    "Expected: (1 - h)^N, the share of traces without an error if each of N steps failed as rarely as one step does given the true "
    "past (teacher forcing), for every kind of step that the model writes: the product of their rates, each to the power of their "
    "number in a program's trace, and the mean of that over programs. The interval is for the rates and for other programs. What is "
    "observed below it is the cost of reading what it wrote itself. An answer may be right in spite of an error, so that more than is "
    "expected can be right. Where lines are fed and events are not (line_forced), nothing is expected: under teacher forcing the two "
    "are right or wrong together."
)


class Compound(NamedTuple):
    """What one condition's steps come to: expected from one-step rates (with an interval), beside what is observed. `steps`: mean of
    a program."""

    condition: ConditionSummary
    steps: float
    expected: tuple[float, float, float]


def one_step_sections(
    name: str, axis: str | None, conditions: Sequence[ConditionSummary], records: pd.DataFrame
) -> list[Section]:
    """The sections of conditions in which answers are not the model's; none where there are none."""
    fed = [condition for condition in conditions if condition["right"] is None and condition["per_frame"]]
    found = []
    if fed:
        found.append(Section(f"{name}: right per frame, given what was fed", rows=rates(fed), note=RATES))
    compounds = compounded(conditions, records)
    if compounds:
        how = f"{name}: what single steps come to"
        numeric = axis is not None and len({one.condition["labels"][axis] for one in compounds}) > 1
        if numeric and axis is not None:
            found.append(Section(how, draw=partial(compound_figure, compounds, axis), note=COMPOUND))
        found.append(Section(f"{how}, in numbers", rows=compound_table(compounds), note=COMPOUND))
    return found


def rates(conditions: Sequence[ConditionSummary]) -> Rows:
    """Right states, actions and values per frame."""
    labels = varying(conditions)
    table = [["Run", *map(title, labels), "Examples", "States", "Actions", "Values"]]
    for condition in in_order(conditions):
        table.append(
            [
                condition["run"],
                *(text(condition["labels"].get(name, "")) for name in labels),
                str(condition["examples"]),
                *(rate_of(condition, kind) for kind in ("states", "actions", "returns")),
            ]
        )
    return table


def rate_of(condition: ConditionSummary, kind: str) -> str:
    """A rate per frame with its interval and how many steps it is of; empty where all were fed."""
    found = condition["per_frame"].get(kind)
    return f"{percent(found)}\nof {found['examples']:,}" if found is not None else ""


def compounded(conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Compound]:
    """Every condition with right answers beside which the same one is teacher-forced. One in which the model writes events and is
    given their lines has none: under teacher forcing the two are right or wrong together."""
    single = {_key(one): one["per_frame"] for one in conditions if one["labels"]["forcing"] == PARALLEL}
    found = []
    for condition in in_order(conditions):
        steps = single.get(_key(condition), {})
        written = condition["per_frame"]
        if condition["right"] is None or not written or not written.keys() <= steps.keys():
            continue
        if "actions" in written and gives_half_an_action(str(condition["labels"]["forcing"])):
            continue
        mine = (records["run"] == condition["run"]) & (records["condition"] == condition["condition"])
        rows = traced_only(records[mine])
        counts = rows[list(written)]
        expected = compound(
            counts.to_numpy(dtype=float),
            [(steps[kind]["mean"], steps[kind]["low"], steps[kind]["high"]) for kind in written],
            rows["cluster"].tolist(),
        )
        found.append(Compound(condition, float(counts.sum(axis=1).mean()), expected))
    return found


def _key(condition: ConditionSummary) -> tuple[str, frozenset[tuple[str, LabelValue]]]:
    return condition["run"], frozenset(item for item in condition["labels"].items() if item[0] != "forcing")


def compound_table(compounds: Sequence[Compound]) -> Rows:
    """What is expected from single steps beside what is observed."""
    labels = varying([one.condition for one in compounds])
    if "forcing" not in labels:
        labels = [*labels, "forcing"]
    table = [["Run", *map(title, labels), "Steps", "Expected", "Answer right", "Difference in points", WITHOUT]]
    for condition, steps, (expected, low, high) in compounds:
        right = condition["right"]
        assert right is not None
        table.append(
            [
                condition["run"],
                *(text(condition["labels"].get(name, "")) for name in labels),
                f"{steps:.0f}",
                f"{100 * expected:.0f} %\n{interval(low, high)}",
                percent(right),
                points(right["mean"] - expected),
                baselines.best([condition]),
            ]
        )
    return table


def compound_figure(compounds: Sequence[Compound], axis: str) -> Figure:
    """Right answers along an axis, and dashed what single steps let expect; a panel for every forcing."""
    conditions = [one.condition for one in compounds]
    forcings = list(dict.fromkeys(condition["labels"]["forcing"] for condition in conditions))
    others = [name for name in telling(conditions) if name not in (axis, "forcing")]
    lines = list(dict.fromkeys((one["run"], named(one["labels"], others)) for one in conditions))
    figure, axes = plotting.panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        for number, (run, kind) in enumerate(lines):
            mine = [
                one
                for one in compounds
                if (one.condition["run"], named(one.condition["labels"], others)) == (run, kind)
                and one.condition["labels"]["forcing"] == forcing
            ]
            observed = {
                one.condition["labels"][axis]: (right["mean"], right["low"], right["high"])
                for one in mine
                if (right := one.condition["right"]) is not None
            }
            said = f"{run}, {kind}" if kind else run
            plotting.line(panel, observed, said, number, LINES[0])
            at = sorted(mine, key=lambda one: float(one.condition["labels"][axis]))
            panel.plot(
                [one.condition["labels"][axis] for one in at],
                [one.expected[0] for one in at],
                "--",
                color=COLOURS[number % len(COLOURS)],
                label=f"{said}: (1 - h)^N",
            )
        baselines.draw(panel, baselines.along((c for c in conditions if c["labels"]["forcing"] == forcing), axis))
        plotting.numbers(panel, [float(one.condition["labels"][axis]) for one in compounds])
        plotting.rates(panel)
        panel.set(xlabel=axis, title=f"{forcing}")
    axes[0].set_ylabel("answers right")
    plotting.legend(figure, axes)
    return figure
