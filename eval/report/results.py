"""Right answers by condition, whatever the diagnostic is: a table over recipes, a figure, held-out programs, and tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.remarks import remarks
from remedy.eval.records.schema import FRAMES, LABELS, ROLE_COLUMNS, answered
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.groups import Group, against_rule, all_runs, table
from remedy.eval.report.notes import NOTES
from remedy.eval.report.wording import solved_of
from remedy.eval.stats import rate
from remedy.eval.tables.sections import (
    TOKENS,
    WITHOUT,
    Published,
    Rows,
    Section,
    constant,
    named,
    points_of,
    rated,
    telling,
    text,
    title,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = {"horizon": "commands since the last full state", "length": "commands", "depth": "functions composed"}
"""Axes in plain words."""
FED = {
    "free": "written freely",
    "action_forced": "actions given",
    "line_forced": "lines given",
    "state_forced": "states given",
    "teacher_forced": "each step after a true past",
    "control_flow": "held to the control flow",
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


def result_sections(
    name: str,
    axis: str | None,
    groups: Sequence[Group],
    requests: Sequence[Mapping[str, Any]],
    published: Sequence[Published] = (),
) -> list[Section]:
    """The sections on right answers of one diagnostic. `axis`: the label that the figure has on its x axis, if one is a quantity."""
    scored = [group for group in groups if group.scored]
    steps = [group for group in groups if not group.scored and group.runs[0]["per_frame"]]
    found = []
    if scored and axis is not None:
        axis = varying(scored, axis)
        about = f"{title(axis)}: {LABELS[axis].meaning} " if axis in LABELS else ""
        draw = partial(curves, scored, axis)
        found.append(Section(f"{name}: right answers by {axis}", draw=draw, note=about + NOTES["drawn"]))
    if scored:
        conditions = all_runs(scored)
        beside = [one for one in published if one.beside(conditions)]
        notes = [constant(conditions), *(f"{one.name}: {one.unlike}" for one in beside)]
        if left_out := untraced(all_runs(groups)):
            notes.append(f"Left out, since they could not be run: {left_out}.")
        rows, own = right_table(scored, beside), " ".join(filter(None, notes))
        found.append(Section(f"{name}: right answers", rows=rows, note=NOTES["right"], own=own))
    if steps:
        title_ = f"{name}: right by frame, where answers are fed"
        found.append(Section(title_, rows=step_table(steps), note=NOTES["fed"]))
    if len(held := held_out_table(scored, requests)) > 1:
        found.append(Section(f"{name}: held out from training", rows=held, note=NOTES["held_out"]))
    return found


def varying(groups: Sequence[Group], axis: str) -> str:
    """The axis, or what grows with it elsewhere if it is constant: with every state shown the horizon is 1 at any length."""
    along = LABELS[axis].along if axis in LABELS else ()
    return next((one for one in (axis, *along) if len({group.labels.get(one) for group in groups}) > 1), axis)


def untraced(conditions: Sequence[ConditionSummary]) -> str:
    """Programs that could not be run, by outcome: the most of any condition, since conditions share their programs."""
    most = pd.DataFrame([one["untraced"] for one in conditions]).max()
    return ", ".join(f"{outcome} {count:.0f}" for outcome, count in most.items())


def right_table(groups: Sequence[Group], published: Sequence[Published] = ()) -> Rows:
    """A row for every recipe and condition, then what is published on conditions like these."""
    several = any(len(group.runs) > 1 for group in groups)

    def right(group: Group) -> str:
        estimate = group.rates.estimate[:3]
        return "\n".join([rated(*estimate), *remarks(group.runs, estimate)])

    def seeds(group: Group) -> str:
        return ", ".join(f"{100 * one:.0f}" for one in group.rates.points) + " %" if len(group.runs) > 1 else ""

    def without(group: Group) -> str:
        found = against_rule(answered(group.records), "right")
        return f"{baselines.best(group.runs)}\n{points_of(found[1])}" if found else ""

    columns: dict[str, Callable[[Group], object]] = {
        "Right": right,
        "Each seed": seeds,
        "Solved": lambda group: solved_of(group.rates) if several else "",
        WITHOUT: without,
        "Changed states": partial(Group.share, key="changed_state_exact", count="changed_states"),
        **{head: partial(Group.share, key=key) for head, key in SHARES.items()},
        "Examples": lambda group: sized(group.runs[0]),
    }
    shown = table(groups, columns)
    for one in published:
        about = {"Recipe": one.name, "Right": one.metrics.get("Answer right", ""), **one.metrics}
        about |= {title(key): text(value) for key, value in one.labels.items()}
        about |= {"States": one.metrics.get("State exact", ""), "Actions": one.metrics.get("Action exact", "")}
        shown.append([about.get(head, "") for head in shown[0]])
    return shown


def sized(condition: ConditionSummary) -> str:
    """Count the examples; in small print, how many programs, and how many of them are independent, where that is fewer."""
    said = str(condition["examples"])
    if condition["programs"] < condition["examples"]:
        said += f"\n{condition['programs']} programs"
    if condition["clusters"] < condition["programs"]:
        said += f"\n{condition['clusters']} independent"
    return said


def step_table(groups: Sequence[Group]) -> Rows:
    """Right states, actions and values per frame, where answers are not the model's."""
    columns = {
        count.replace("_", " ").capitalize(): partial(Group.share, key=share, count=count)
        for share, count in FRAMES.values()
    }
    return table(groups, {**columns, "Examples": lambda group: str(group.runs[0]["examples"])})


def curves(groups: Sequence[Group], axis: str) -> Figure | None:
    """Right answers against a label: a panel for every set of the other labels, but for those that grow with the axis, and a line for
    every recipe. None where no line has two points."""
    from remedy.eval.tables import plotting

    through = (axis, "forcing", *(LABELS[axis].along if axis in LABELS else ()))
    others = [name for name in telling(all_runs(groups)) if name not in through]
    found: dict[str, dict[str, dict[float, Group]]] = {}
    for group in sorted(groups, key=lambda group: float(group.labels[axis])):
        forcing, at = str(group.labels["forcing"]), float(group.labels[axis])
        said = "\n".join(filter(None, [FED.get(forcing, forcing), named(group.labels, others)]))
        found.setdefault(said, {}).setdefault(group.variant, {})[at] = group
    found = {said: lines for said, lines in found.items() if max(map(len, lines.values())) > 1}
    if not found:
        return None
    names = list(dict.fromkeys(group.variant for group in groups))
    figure, axes = plotting.panels(len(found))
    for panel, (said, lines) in zip(axes, found.items()):
        for name, points in lines.items():
            number = names.index(name)
            plotting.line(panel, {at: group.rates.estimate[:3] for at, group in points.items()}, name, number)
            seeds = [(at, one) for at, group in points.items() for one in group.rates.points if len(group.runs) > 1]
            if seeds:
                xs, ys = zip(*seeds)
                panel.scatter(xs, ys, s=9, color=plotting.colour(number), alpha=0.6, zorder=3)
        shown = [(at, run) for points in lines.values() for at, group in points.items() for run in group.runs]
        baselines.draw(panel, baselines.along(shown))
        plotting.numbers(panel, [at for at, _ in shown])
        plotting.rates(panel)
        panel.set(xlabel=AXES.get(axis, title(axis).lower()), title=said)
    axes[0].set_ylabel("right answers")
    plotting.legend(figure, axes)
    return figure


def held_out_table(groups: Sequence[Group], requests: Sequence[Mapping[str, Any]]) -> Rows:
    """Programs with and without what was held out from training; a head alone where no run has held anything out."""
    tasks = {request["run"]: request.get("trained_on") or {} for request in requests}
    names = [name for name in telling(all_runs(groups)) if name != "function"]
    found: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    for group in groups:
        task = tasks.get(group.runs[0]["run"], {})
        functions, depths, pairs = (task.get(f"held_out_{what}") or () for what in ("functions", "depths", "pairs"))
        rows = answered(group.records)
        rows = rows[rows["functions"] != ""]
        if (functions or depths or pairs) and len(rows):
            used = rows["functions"].str.split()
            new = [bool({*functions} & {*own}) or any([*pair] in pairs for pair in pairwise(own)) for own in used]
            rows = rows.assign(new=new, deep=used.map(len).isin(depths))
            found.setdefault((group.variant, named(group.labels, names)), []).append(rows)
    table_ = [["Recipe", "Condition", "Depth held out", "Of trained functions and pairs", "With one held out", WITHOUT]]
    for start, parts in found.items():
        for deep, mine in pd.concat(parts).groupby("deep"):
            without = baselines.best([{"baselines": baselines.baselines(mine)}])
            cells = (_held(mine[mine["new"] == new]) for new in (False, True))
            table_.append([*start, "yes" if deep else "no", *cells, without])
    return table_


def _held(rows: pd.DataFrame) -> str:
    """The rate of records, of all runs together, and how many they are."""
    if rows.empty:
        return ""
    found = rate(rows["right"].astype(bool).tolist(), rows["cluster"].tolist())
    programs = rows["example"].nunique()
    return f"{rated(*found[:3])}\nof {len(rows)}" + (f"\n{programs} programs" if programs < len(rows) else "")


def token_section(name: str, groups: Sequence[Group]) -> Section:
    """Mean tokens of a true trace by role, and of what the model wrote and read."""

    def mean(column: str, group: Group) -> str:
        return f"{group.records[column].mean():,.1f}" if group.records[column].any() else ""

    def ratio(group: Group) -> str:
        written = group.records["written_tokens"].sum()
        return f"{group.records['read_tokens'].sum() / written:,.1f}" if written else ""

    columns: dict[str, Callable[[Group], object]] = {
        **{role.label.capitalize(): partial(mean, column) for role, column in ROLE_COLUMNS.items()},
        "Trace": lambda group: f"{group.total('trace_tokens') / len(group.runs):,.1f}",
        "Written": partial(mean, "written_tokens"),
        "Read": partial(mean, "read_tokens"),
        "Read for one written": ratio,
    }
    return Section(f"{name}: tokens", rows=table(groups, columns), note=NOTES["tokens"], group=TOKENS)
