"""Where states or values are fed, what is right step by step; and what the same steps come to where the model reads its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from remedy.eval.decoding.forcings import gives_half_an_action
from remedy.eval.records import baselines
from remedy.eval.records.schema import LabelValue, traced_only
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import apart, compound
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS
from remedy.eval.tables.plotting import MARKERS
from remedy.eval.tables.sections import (
    WITHOUT,
    Line,
    Rows,
    Section,
    in_order,
    interval,
    lines,
    percent,
    points,
    telling,
    text,
    title,
    varying,
)

PARALLEL = "teacher_forced"
RATES = (
    "Where states or values are fed, the answer is read from what was given, and whether it is right is undefined. Instead: the shares "
    "of all states, actions and returned or raised values that are right given what was fed, with Wilson intervals over clusters. "
    "Nothing stands where all of a kind was fed."
)
OBSERVED, EXPECTED = "observed", "expected, (1 - h)^N"
ENDS: dict[str, tuple[plotting.Style, int]] = {OBSERVED: ("-", 0), EXPECTED: ("--", 2)}
"""The style of each, and the number of its marker."""
COMPOUND = (
    "Expected: (1 - h)^N, the share of traces without an error if each of N steps failed as rarely as one step does given the true "
    "past (teacher forcing), for every kind of step that the model writes: the product of their rates, each to the power of their "
    "number in a program's trace, and the mean of that over programs. The interval is for the rates and for other programs. What is "
    "observed below it is the cost of reading what it wrote itself; the interval of the difference joins the two as if they were "
    "independent, and is mostly too wide. The two are different events: expected is a trace without any error, observed a right "
    "answer, which may be right in spite of one. So a difference that is not below 0 does not show that nothing is lost. "
    "Where lines are fed and events are not (line_forced), nothing is expected: under teacher forcing the two are right or wrong "
    "together."
)


class Compound(NamedTuple):
    """What one condition's steps come to: expected from one-step rates (with an interval), beside what is observed. `steps`: mean of
    a program."""

    condition: ConditionSummary
    steps: float
    expected: tuple[float, float, float]


def one_step_sections(
    name: str,
    axis: str | None,
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    variants: Mapping[str, str],
) -> list[Section]:
    """The sections of conditions in which answers are not the model's; none where there are none. `variants`: of every run."""
    fed = [condition for condition in conditions if condition["right"] is None and condition["per_frame"]]
    found = []
    if fed:
        found.append(Section(f"{name}: right per frame, given what was fed", rows=rates(fed), note=RATES))
    compounds = compounded(conditions, records)
    if compounds:
        how = f"{name}: what single steps come to"
        numeric = axis is not None and len({one.condition["labels"][axis] for one in compounds}) > 1
        if numeric and axis is not None:
            found.append(Section(how, draw=partial(compound_figure, compounds, axis, variants), note=COMPOUND))
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
        difference, least, most = apart((right["mean"], right["low"], right["high"]), (expected, low, high))
        table.append(
            [
                condition["run"],
                *(text(condition["labels"].get(name, "")) for name in labels),
                f"{steps:.0f}",
                f"{100 * expected:.0f} %\n{interval(low, high)}",
                percent(right),
                f"{points(difference)}\n{points(least)} to {points(most)}",
                baselines.best([condition]),
            ]
        )
    return table


def compound_figure(compounds: Sequence[Compound], axis: str, variants: Mapping[str, str]) -> Figure:
    """Right answers along an axis, and dashed what single steps let expect; a panel for every variant and forcing, in which lines of
    one kind have one colour, each run its own."""
    conditions = [one.condition for one in compounds]
    found = drawn_lines(conditions, axis)
    expected = {(one.condition["run"], one.condition["condition"]): one.expected for one in compounds}
    kinds = list(dict.fromkeys(line.kind for line in found))
    panels = list(dict.fromkeys((variants[line.run], str(line.labels["forcing"])) for line in found))
    figure, axes = plotting.panels(len(panels))
    for panel, (variant, forcing) in zip(axes, panels):
        mine = [line for line in found if (variants[line.run], line.labels["forcing"]) == (variant, forcing)]
        asides = plotting.asides(
            [(line.run, line.kind, end) for line in mine if len(line.conditions) == 1 for end in (OBSERVED, EXPECTED)]
        )
        for line in mine:
            number = kinds.index(line.kind)
            points: dict[str, dict[float, plotting.Interval]] = {OBSERVED: {}, EXPECTED: {}}
            for one in line.conditions:
                at, right = float(one["labels"][axis]), one["right"]
                assert right is not None
                points[OBSERVED][at] = right["mean"], right["low"], right["high"]
                points[EXPECTED][at] = expected[one["run"], one["condition"]]
            for end, (style, marker) in ENDS.items():
                aside, label = asides.get((line.run, line.kind, end), 0.0), plotting.called(end, line.kind)
                plotting.line(panel, points[end], label, number, style, marker, aside, end == OBSERVED)
        baselines.draw(panel, baselines.along((one for line in mine for one in line.conditions), axis))
        plotting.numbers(panel, [float(one["labels"][axis]) for one in conditions])
        plotting.rates(panel)
        if asides:
            panel.margins(x=0.2)
        panel.set(xlabel=axis, title=f"{variant}\n{forcing}")
    axes[0].set_ylabel("answers right")
    ends = {end: Line2D([], [], color="0.25", linestyle=ENDS[end][0], marker=MARKERS[ENDS[end][1]]) for end in ENDS}
    colours = {kind: Line2D([], [], color=COLOURS[number % len(COLOURS)], lw=4) for number, kind in enumerate(kinds)}
    named_kinds = {kind: handle for kind, handle in colours.items() if kind}
    hidden = {plotting.called(end, kind) for end in ENDS for kind in kinds}
    plotting.legend(figure, axes, ends | named_kinds, hidden - ends.keys())
    return figure


def drawn_lines(conditions: Sequence[ConditionSummary], axis: str) -> list[Line]:
    """The lines to draw. Where there are more kinds than colours, those of one point, as of single functions, are in the table only."""
    found = lines(conditions, [*telling(conditions), "forcing"], axis)
    several = [line for line in found if len(line.conditions) > 1]
    return several if several and len({line.kind for line in found}) > len(COLOURS) else found
