"""Right answers by condition, whatever the diagnostic is: one table over recipes, a figure, held-out programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.remarks import remarks
from remedy.eval.records.schema import LABELS, answered
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.evidence import solved_of
from remedy.eval.report.notes import NOTES
from remedy.eval.report.verdicts import outcomes_of
from remedy.eval.stats import Repeated, over_seeds, rate
from remedy.eval.tables.sections import (
    WITHOUT,
    Group,
    Published,
    Rows,
    Section,
    constant,
    grouped,
    in_order,
    lines,
    mean_of,
    rated,
    table,
    telling,
    text,
    title,
    varying,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = {
    "horizon": "commands since the last full state",
    "length": "commands",
    "depth": "functions composed",
}
"""Axes in plain words."""
FED = {
    "free": "written freely",
    "action_forced": "actions given",
    "line_forced": "lines given",
    "state_forced": "states given",
    "teacher_forced": "each step after a true past",
    "control_flow": "held to the control flow",
    "guided": "held to control flow and states",
}
"""Forcings in plain words."""
SHARES = {
    "Valid format": "valid_format",
    "States": "state_exact",
    "Actions": "action_exact",
    "Values": "value_exact",
    "Variables": "key_match",
    "With values": "key_value_match",
}


def fed(forcing: object) -> str:
    """A forcing in plain words."""
    return FED.get(str(forcing), str(forcing))


def result_sections(
    name: str,
    axis: str | None,
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    published: Sequence[Published] = (),
) -> list[Section]:
    """The sections on right answers of one diagnostic. `axis`: the label that figures have on their x axis, if one is a quantity."""
    scored = [condition for condition in conditions if condition["right"] is not None]
    found = []
    if scored and axis is not None and len({one["labels"][axis] for one in scored}) > 1:
        about = f"{title(axis)}: {LABELS[axis].meaning} " if axis in LABELS else ""
        draw = partial(accuracy_along, scored, records, axis)
        found.append(Section(f"{name}: right answers by {axis}", draw=draw, note=about + NOTES["drawn"]))
    if scored:
        notes = [
            NOTES["right"],
            constant(scored),
            *(f"{one.name}: {one.unlike}" for one in published if one.beside(scored)),
        ]
        if left_out := untraced(conditions):
            notes.append(f"Left out, since they could not be run: {left_out}.")
        rows = right_table(scored, records, published)
        found.append(Section(f"{name}: right answers", rows=rows, note=" ".join(filter(None, notes))))
    steps = [condition for condition in conditions if condition["right"] is None and condition["per_frame"]]
    if steps:
        title_ = f"{name}: right by frame, where answers are fed"
        found.append(Section(title_, rows=step_table(steps), note=NOTES["fed"]))
    return found


def untraced(conditions: Sequence[ConditionSummary]) -> str:
    """Programs that could not be run, by outcome: the most of any condition, since conditions share their programs."""
    most = pd.DataFrame([one["untraced"] for one in conditions]).max()
    return ", ".join(f"{outcome} {count:.0f}" for outcome, count in most.items())


def rates_of(records: pd.DataFrame) -> Repeated:
    """The rates of the runs of one condition on the programs that all of them have."""
    outcomes, clusters = outcomes_of(answered(records), "right")
    return over_seeds(outcomes, clusters)


def right_table(
    conditions: Sequence[ConditionSummary], records: pd.DataFrame, published: Sequence[Published] = ()
) -> Rows:
    """A row for every recipe and condition, then what is published on conditions like these."""
    groups = grouped(conditions, records)
    found = {id(group): rates_of(group.records) for group in groups}
    several = any(len(group.runs) > 1 for group in groups)

    def right(group: Group) -> str:
        estimate = found[id(group)].estimate[:3]
        return "\n".join([rated(*estimate), *remarks(group.runs, estimate)])

    def seeds(group: Group) -> str:
        rates = found[id(group)].points
        return ", ".join(f"{100 * one:.0f}" for one in rates) + " %" if len(rates) > 1 else ""

    def share(key: str, group: Group) -> str:
        return mean_of(run[key] for run in group.runs)  # type: ignore[literal-required]

    columns: dict[str, Callable[[Group], str]] = {
        "Right": right,
        "Each seed": seeds,
        "Solved": lambda group: solved_of(found[id(group)]) if several else "",
        WITHOUT: lambda group: baselines.best(group.runs),
        **{head: partial(share, key) for head, key in SHARES.items()},
        "Tokens": lambda group: f"{group.total('trace_tokens') / len(group.runs):.0f}",
        "Examples": lambda group: sized(group.runs[0]),
    }
    shown = table(groups, columns)
    for one in published:
        if one.beside(conditions):
            about = {"Recipe": one.name, "Right": one.metrics.get("Answer right", ""), **one.metrics}
            about |= {title(key): text(value) for key, value in one.labels.items()}
            about |= {"States": one.metrics.get("State exact", ""), "Actions": one.metrics.get("Action exact", "")}
            shown.append([about.get(head, "") for head in shown[0]])
    return shown


def sized(condition: ConditionSummary) -> str:
    """Count the examples; in small print, how many programs, and as how many they count, where that is fewer."""
    said, right = str(condition["examples"]), condition["right"]
    if condition["programs"] < condition["examples"]:
        said += f"\n{condition['programs']} programs"
    if condition["clusters"] < condition["programs"]:
        said += f"\nin {condition['clusters']} clusters"
    if condition["clusters"] < condition["examples"] and right is not None:
        said += f"\nas good as {right['effective']:.0f}"
    return said


def step_table(conditions: Sequence[ConditionSummary]) -> Rows:
    """Right states, actions and values per frame, where answers are not the model's."""

    def share(kind: str, group: Group) -> str:
        return mean_of(run["per_frame"].get(kind) for run in group.runs)

    columns = {kind.capitalize(): partial(share, kind) for kind in ("states", "actions", "returns")}
    return table(grouped(conditions), {**columns, "Examples": lambda group: str(group.runs[0]["examples"])})


def accuracy_along(conditions: Sequence[ConditionSummary], records: pd.DataFrame, axis: str) -> Figure:
    """Right answers against a label: a panel for every forcing, a colour for every recipe, a style for every kind of line."""
    from remedy.eval.tables import plotting

    ordered, rows = in_order(conditions), dict(list(records.groupby(["run", "condition"], sort=False)))
    found: dict[tuple[str, str, str], list[ConditionSummary]] = {}
    for line in lines(ordered, [*telling(ordered), "forcing"], axis):
        key = line.conditions[0]["variant"], line.kind, fed(line.labels["forcing"])
        found.setdefault(key, []).extend(line.conditions)
    drawn = []
    places: dict[str, list[tuple[float, ConditionSummary]]] = {}
    for (name, kind, forcing), group in found.items():
        at: dict[float, list[pd.DataFrame]] = {}
        for one in sorted(group, key=lambda one: float(one["labels"][axis])):
            at.setdefault(float(one["labels"][axis]), []).append(rows[one["run"], one["condition"]])
            places.setdefault(forcing, []).append((float(one["labels"][axis]), one))
        rates = {place: rates_of(pd.concat(mine)) for place, mine in at.items()}
        seeds = [(place, point) for place, one in rates.items() for point in one.points if len(one.points) > 1]
        drawn.append(
            plotting.Line(forcing, name, kind, {place: one.estimate[:3] for place, one in rates.items()}, seeds)
        )
    without = {forcing: baselines.along(mine) for forcing, mine in places.items()}
    numbers = partial(plotting.numbers, values=[float(one["labels"][axis]) for one in ordered])
    return plotting.along(drawn, list(without), AXES.get(axis, title(axis).lower()), numbers, without)


def _rate(rows: pd.DataFrame) -> tuple[float, float, float]:
    return rate(rows["right"].astype(bool).tolist(), rows["cluster"].tolist())[:3]


def held_out_section(
    name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame, requests: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """Programs with and without what was held out from training; nothing where no run has held anything out."""
    tasks = {request["run"]: request.get("trained_on") or {} for request in requests}
    labels = [label for label in varying(conditions) if label != "function"]
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in in_order(conditions):
        key = one["run"], *(text(one["labels"].get(label, "")) for label in labels)
        groups.setdefault(key, []).append(one["condition"])
    found = [["Run", *map(title, labels), "Depth held out", "Of trained functions", "With one held out", WITHOUT]]
    for (run, *values), slugs in groups.items():
        functions, depths = (tasks.get(run, {}).get(f"held_out_{what}") or () for what in ("functions", "depths"))
        if not functions and not depths:
            continue
        rows = answered(records[(records["run"] == run) & records["condition"].isin(slugs)])
        rows = rows[rows["functions"] != ""]
        used = rows["functions"].str.split()
        new, deep = ~used.map(set(functions).isdisjoint).astype(bool), used.map(len).isin(depths)
        for mine, said in ((rows[~deep], "no"), (rows[deep], "yes")):
            if len(mine):
                without = baselines.best([{"baselines": baselines.baselines(mine)}])
                held = new[mine.index]
                found.append([run, *values, said, _held(mine[~held]), _held(mine[held]), without])
    return [Section(f"{name}: held out from training", rows=found, note=NOTES["held_out"])] if len(found) > 1 else []


def _held(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    programs = rows["example"].nunique()
    of = f"of {len(rows)}" + (f"\n{programs} programs" if programs < len(rows) else "")
    return f"{rated(*_rate(rows))}\n{of}"
