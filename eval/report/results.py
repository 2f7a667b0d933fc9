"""Report sections on right answers and tokens of any diagnostic."""

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
from remedy.eval.report.notes import NOTES
from remedy.eval.report.wording import solved_of
from remedy.eval.stats import BAR, rate
from remedy.eval.tables.groups import Group, against_rule, all_runs, table
from remedy.eval.tables.sections import (
    TOKENS,
    WITHOUT,
    Published,
    Rows,
    Section,
    constant,
    joined,
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
"""Names of axes in plain words."""
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
    """Make a diagnostic's sections on right answers; `axis`: the label of figures."""
    scored = [group for group in groups if group.scored]
    steps = [group for group in groups if not group.scored and group.runs[0]["per_frame"]]
    sections = []
    if scored and axis is not None:
        axis = varying_axis(scored, axis)
        meaning = f"{title(axis)}: {LABELS[axis].meaning} " if axis in LABELS else ""
        draw = partial(curves, scored, axis)
        sections.append(Section(f"{name}: right answers by {axis}", draw=draw, note=meaning + NOTES["drawn"]))
    if scored:
        comparable = [
            figures for figures in published if any(figures.labels.items() <= group.labels.items() for group in scored)
        ]
        left_out = untraced(all_runs(groups))
        remark = joined(
            " ",
            constant(all_runs(scored)),
            *(f"{figures.name}: {figures.unlike}" for figures in comparable),
            f"Left out, since they could not be run: {left_out}." if left_out else "",
        )
        rows = right_table(scored, comparable)
        sections.append(Section(f"{name}: right answers", rows=rows, note=NOTES["right"], own=remark))
    if steps:
        title_ = f"{name}: right by frame, where answers are fed"
        sections.append(Section(title_, rows=step_table(steps), note=NOTES["fed"]))
    if len(held_out := held_out_table(scored, requests)) > 1:
        sections.append(Section(f"{name}: held out from training", rows=held_out, note=NOTES["held_out"]))
    return sections


def varying_axis(groups: Sequence[Group], axis: str) -> str:
    """Return the axis or, if it is constant, a label that grows with it."""
    along = LABELS[axis].along if axis in LABELS else ()
    return next((name for name in (axis, *along) if len({group.labels.get(name) for group in groups}) > 1), axis)


def untraced(conditions: Sequence[ConditionSummary]) -> str:
    """Count programs that could not be run, by outcome."""
    # Conditions share their programs, so that counts must not be added.
    most = pd.DataFrame([condition["untraced"] for condition in conditions]).max()
    return ", ".join(f"{outcome} {count:.0f}" for outcome, count in most.items())


def right_table(groups: Sequence[Group], published: Sequence[Published] = ()) -> Rows:
    several = any(len(group.runs) > 1 for group in groups)

    def right(group: Group) -> str:
        estimate = group.rates.estimate[:3]
        return joined("\n", rated(*estimate), *remarks(group.runs, estimate))

    def seeds(group: Group) -> str:
        return ", ".join(f"{100 * point:.0f}" for point in group.rates.points) + " %" if len(group.runs) > 1 else ""

    def without(group: Group) -> str:
        rule = against_rule(answered(group.records), "right")
        return f"{baselines.best(group.runs)}\n{points_of(rule[1])}" if rule else ""

    columns: dict[str, Callable[[Group], object]] = {
        "Right": right,
        "Each seed": seeds,
        f"Seeds at {BAR:.0%}": lambda group: solved_of(group.rates) if several else "",
        WITHOUT: without,
        "Changed states": partial(Group.share, key="changed_state_exact", count="changed_states"),
        **{head: partial(Group.share, key=key) for head, key in SHARES.items()},
        "Examples": lambda group: sized(group.runs[0]),
    }
    rows = table(groups, columns)
    for figures in published:
        cells = {title(key): text(value) for key, value in figures.labels.items()}
        cells |= {"Recipe": figures.name, **figures.metrics}
        rows.append([cells.get(head, "") for head in rows[0]])
    return rows


def sized(condition: ConditionSummary) -> str:
    """Count examples; in small print, fewer programs or independent ones."""
    examples, programs, clusters = condition["examples"], condition["programs"], condition["clusters"]
    fewer = f"{programs} programs" if programs < examples else ""
    return joined("\n", str(examples), fewer, f"{clusters} independent" if clusters < programs else "")


def step_table(groups: Sequence[Group]) -> Rows:
    columns = {
        count.replace("_", " ").capitalize(): partial(Group.share, key=share, count=count)
        for share, count in FRAMES.values()
    }
    return table(groups, {**columns, "Examples": lambda group: str(group.runs[0]["examples"])})


def curves(groups: Sequence[Group], axis: str) -> Figure | None:
    """Draw right answers by a label, a panel for each set of other labels."""
    from remedy.eval.tables import plotting

    along = (axis, "forcing", *(LABELS[axis].along if axis in LABELS else ()))
    others = [name for name in telling(all_runs(groups)) if name not in along]
    by_panel: dict[str, dict[str, dict[float, Group]]] = {}
    for group in sorted(groups, key=lambda group: float(group.labels[axis])):
        forcing, x = str(group.labels["forcing"]), float(group.labels[axis])
        head = joined("\n", FED.get(forcing, forcing), named(group.labels, others))
        by_panel.setdefault(head, {}).setdefault(group.variant, {})[x] = group
    # A single point draws no line.
    by_panel = {head: lines for head, lines in by_panel.items() if max(map(len, lines.values())) > 1}
    if not by_panel:
        return None
    names = list(dict.fromkeys(group.variant for group in groups))
    figure, axes = plotting.panels(len(by_panel))
    for panel, (head, lines) in zip(axes, by_panel.items()):
        for name, points in lines.items():
            number = names.index(name)
            plotting.line(panel, {x: group.rates.estimate[:3] for x, group in points.items()}, name, number)
            for x, group in points.items():
                if len(seeds := group.rates.points) > 1:
                    panel.scatter([x] * len(seeds), seeds, s=9, color=plotting.colour(number), alpha=0.6, zorder=3)
        runs = [(x, run) for points in lines.values() for x, group in points.items() for run in group.runs]
        baselines.draw(panel, baselines.along(runs))
        plotting.numbers(panel, [x for x, _ in runs])
        plotting.rates(panel)
        panel.set(xlabel=AXES.get(axis, title(axis).lower()), title=head)
    axes[0].set_ylabel("right answers")
    plotting.legend(figure, axes)
    return figure


def held_out_table(groups: Sequence[Group], requests: Sequence[Mapping[str, Any]]) -> Rows:
    tasks = {request["run"]: request.get("trained_on") or {} for request in requests}
    names = [name for name in telling(all_runs(groups)) if name != "function"]
    by_recipe: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    for group in groups:
        task = tasks.get(group.runs[0]["run"], {})
        functions, depths, pairs = (task.get(f"held_out_{kind}") or () for kind in ("functions", "depths", "pairs"))
        rows = answered(group.records)
        rows = rows[rows["functions"] != ""]
        if (functions or depths or pairs) and len(rows):
            used = rows["functions"].str.split()
            # Of compositions, functions stand in the order of their calls.
            new = [
                not {*calls}.isdisjoint(functions) or any([*pair] in pairs for pair in pairwise(calls))
                for calls in used
            ]
            rows = rows.assign(new=new, deep=used.map(len).isin(depths))
            by_recipe.setdefault((group.variant, named(group.labels, names)), []).append(rows)
    table_rows = [
        ["Recipe", "Condition", "Depth held out", "Of trained functions and pairs", "With one held out", WITHOUT]
    ]
    for start, parts in by_recipe.items():
        for deep, of_depth in pd.concat(parts).groupby("deep"):
            without = baselines.best([{"baselines": baselines.baselines(of_depth)}])
            cells = (_held(of_depth[of_depth["new"] == new]) for new in (False, True))
            table_rows.append([*start, "yes" if deep else "no", *cells, without])
    return table_rows


def _held(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    estimate, programs = rate(rows["right"], rows["cluster"]), rows["example"].nunique()
    return f"{rated(*estimate[:3])}\nof {len(rows)}" + (f"\n{programs} programs" if programs < len(rows) else "")


def token_section(name: str, groups: Sequence[Group]) -> Section:
    def mean(column: str, group: Group) -> str:
        return f"{group.records[column].mean():,.1f}" if group.records[column].any() else ""

    columns: dict[str, Callable[[Group], object]] = {
        **{role.label.capitalize(): partial(mean, column) for role, column in ROLE_COLUMNS.items()},
        "Trace": lambda group: f"{group.total('trace_tokens') / len(group.runs):,.1f}",
        "Written": partial(mean, "written_tokens"),
        "Read": partial(mean, "read_tokens"),
    }
    return Section(f"{name}: tokens", rows=table(groups, columns), note=NOTES["tokens"], group=TOKENS)
