"""Right answers by condition, whatever the diagnostic is: one table over recipes, a figure along its axis, answers by tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.remarks import NOTE, remarks
from remedy.eval.records.schema import LABELS, TRACE_COLUMNS, answered
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.evidence import solved_of
from remedy.eval.report.verdicts import PAIRED
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
    interval,
    lines,
    mean_of,
    named,
    places,
    sized,
    table,
    telling,
    text,
    title,
    varying,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES = (
    "Right: with several seeds their mean over the programs that all of them have, with a 95 % interval for other seeds and "
    "other programs "
    "(it takes seeds' rates to vary normally); of one run, for other programs alone. Intervals are over clusters: executions of one "
    "function, and a program drawn twice, stand or fall together. States, actions, values, variables: shares of a trace's "
    "frames, averaged "
    "over traces. Tokens: of the trace without its program."
)
DRAWN = "Large marks: means over seeds with 95 % intervals. Small marks: each seed. Grey: the best that is right without a model."
HELD_OUT = (
    "Right answers on programs without and with a function that the run's data keeps from training (`held_out_functions`), and at "
    "depths that it keeps (`held_out_depths`). Intervals are for other programs of these very functions."
)
STEPS = (
    "Where states or values are fed, the answer is read from what was given, and whether it is right is undefined. Instead: the shares "
    "of all states, actions and returned or raised values that are right given what was fed."
)
AXES = {
    "horizon": "commands since the last full state",
    "length": "commands",
    "depth": "functions composed",
    "trace_tokens": "tokens of the true trace",
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
    variants: Mapping[str, str],
    published: Sequence[Published] = (),
) -> list[Section]:
    """The sections on right answers of one diagnostic. `axis`: the label that figures have on their x axis, if one is a quantity."""
    scored = [condition for condition in conditions if condition["right"] is not None]
    found = []
    if scored and axis is not None and len({one["labels"][axis] for one in scored}) > 1:
        about = f"{title(axis)}: {LABELS[axis].meaning} " if axis in LABELS else ""
        draw = partial(accuracy_along, scored, records, axis, variants)
        found.append(Section(f"{name}: right answers by {axis}", draw=draw, note=f"{about}{DRAWN}"))
    if scored:
        rows = right_table(scored, records, variants, published)
        notes = [
            RATES,
            NOTE,
            constant(scored),
            *(f"{one.name}: {one.unlike}" for one in published if one.beside(scored)),
        ]
        if left_out := untraced(conditions):
            notes.append(f"Left out, since they could not be run: {left_out}.")
        found.append(Section(f"{name}: right answers", rows=rows, note=" ".join(filter(None, notes))))
    steps = [condition for condition in conditions if condition["right"] is None and condition["per_frame"]]
    if steps:
        found.append(
            Section(f"{name}: right by frame, where answers are fed", rows=step_table(steps, variants), note=STEPS)
        )
    if scored and axis is None:
        by_tokens = f"{name}: right answers by tokens of the true trace"
        found.append(Section(by_tokens, draw=partial(by_trace_tokens, records, scored)))
    return found


def untraced(conditions: Sequence[ConditionSummary]) -> str:
    """Programs that could not be run, by outcome: the most of any condition, since conditions share their programs."""
    most: dict[str, int] = {}
    for condition in conditions:
        for outcome, count in condition["untraced"].items():
            most[outcome] = max(count, most.get(outcome, 0))
    return ", ".join(f"{outcome} {count}" for outcome, count in most.items())


def of_group(group: Group, rows: Mapping[Any, pd.DataFrame]) -> Repeated:
    """The rates of a group's runs on the programs that all of them have. `rows`: records by run and condition."""
    mine = [rows[run["run"], run["condition"]].assign(place=place) for place, run in enumerate(group.runs)]
    together = pd.concat([answered(one) for one in mine])
    counts = together.groupby(PAIRED).size()
    shared = together.set_index(PAIRED).loc[counts[counts == len(mine)].index].reset_index()
    shared = shared.sort_values(["place", *PAIRED])
    outcomes = shared["right"].to_numpy(dtype=float).reshape(len(mine), -1)
    return over_seeds(outcomes, shared["cluster"].tolist()[: outcomes.shape[1]])


def by_condition(records: pd.DataFrame) -> dict[Any, pd.DataFrame]:
    """Records by run and condition."""
    return dict(list(records.groupby(["run", "condition"], sort=False))) if "condition" in records else {}


def right_table(
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    variants: Mapping[str, str],
    published: Sequence[Published] = (),
) -> Rows:
    """A row for every recipe and condition, then what is published on conditions like these."""
    groups, rows = grouped(conditions, variants), by_condition(records)
    found = {id(group): of_group(group, rows) for group in groups}
    several = any(len(group.runs) > 1 for group in groups)

    def right(group: Group) -> str:
        one = found[id(group)]
        mean, low, high = one.estimate[:3]
        said = [f"{100 * mean:.{places(low, high)}f} %", interval(low, high), *remarks(group.runs, (mean, low, high))]
        return "\n".join(said)

    def seeds(group: Group) -> str:
        points = found[id(group)].points
        return ", ".join(f"{100 * point:.0f}" for point in points) + " %" if len(points) > 1 else ""

    columns: dict[str, Callable[[Group], str]] = {
        "Right": right,
        "Each seed": seeds,
        "Solved": lambda group: solved_of(found[id(group)]) if several else "",
        WITHOUT: lambda group: baselines.best(group.runs),
        **{head: partial(_share, key) for head, key in SHARES.items()},
        "Tokens": lambda group: f"{sum(run['trace_tokens'] for run in group.runs) / len(group.runs):.0f}",
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


def _share(key: str, group: Group) -> str:
    return mean_of([run[key] for run in group.runs])  # type: ignore[literal-required]


def step_table(conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> Rows:
    """Right states, actions and values per frame, where answers are not the model's."""

    def share(kind: str, group: Group) -> str:
        return mean_of([run["per_frame"].get(kind) for run in group.runs])

    columns = {kind.capitalize(): partial(share, kind) for kind in ("states", "actions", "returns")}
    return table(grouped(conditions, variants), {**columns, "Examples": lambda group: str(group.runs[0]["examples"])})


def accuracy_along(
    conditions: Sequence[ConditionSummary], records: pd.DataFrame, axis: str, variants: Mapping[str, str]
) -> Figure:
    """Right answers against a label: a panel for every forcing, a colour for every recipe, a style for every kind of line."""
    from remedy.eval.tables import plotting

    ordered, rows = in_order(conditions), by_condition(records)
    found: dict[tuple[str, str, str], list[ConditionSummary]] = {}
    for line in lines(ordered, [*telling(ordered), "forcing"], axis):
        found.setdefault((variants[line.run], line.kind, str(line.labels["forcing"])), []).extend(line.conditions)
    names = list(dict.fromkeys(name for name, _, _ in found))
    longest = {
        kind: max(len(_along(group, axis)) for key, group in found.items() if key[1] == kind) for _, kind, _ in found
    }
    kinds = sorted(longest, key=lambda kind: longest[kind] == 1)  # lines before single points
    forcings = list(dict.fromkeys(forcing for _, _, forcing in found))
    figure, panels = plotting.panels(len(forcings))
    for panel, forcing in zip(panels, forcings):
        drawn = {key[:2]: group for key, group in found.items() if key[2] == forcing}
        asides = plotting.asides(list(drawn))
        for (name, kind), group in drawn.items():
            points = {float(one.labels[axis]): of_group(one, rows) for one in _along(group, axis)}
            number, of_kind = names.index(name), kinds.index(kind)
            about = (
                plotting.called(name, kind),
                number,
                plotting.style(of_kind, 1),
                of_kind if len(kinds) > 1 else number,
            )
            aside = asides[name, kind] if len(points) == 1 else 0.0
            plotting.line(panel, {at: one.estimate[:3] for at, one in points.items()}, *about, aside)
            seeds = [(at, point) for at, one in points.items() for point in one.points if len(one.points) > 1]
            plotting.dots(panel, seeds, number, aside)
        baselines.draw(panel, baselines.along((one for group in drawn.values() for one in group), axis))
        plotting.numbers(panel, [float(condition["labels"][axis]) for condition in ordered])
        plotting.rates(panel)
        panel.set(xlabel=AXES.get(axis, title(axis).lower()), title=fed(forcing))
    panels[0].set_ylabel("right answers")
    plotting.key(figure, panels, names, kinds, [kind for kind in kinds if longest[kind] == 1])
    return figure


def _along(conditions: Sequence[ConditionSummary], axis: str) -> list[Group]:
    """The conditions of one line as a group for every value of the axis."""
    found: dict[Any, Group] = {}
    for one in conditions:
        found.setdefault(one["labels"][axis], Group("", one["labels"], [])).runs.append(one)
    return [found[at] for at in sorted(found)]


def by_trace_tokens(records: pd.DataFrame, conditions: Sequence[ConditionSummary]) -> Figure | None:
    """Right answers by the tokens of an example's longest true trace, in doublings: a line for every run, a panel for every condition.
    Answers at once stand where the traces of the same programs do. None if no record has a trace."""
    from remedy.eval.tables import plotting

    rows = answered(records)
    rows = rows.assign(cost=records[TRACE_COLUMNS].sum(axis=1))
    cost = rows[~rows["answer_only"].astype(bool)].groupby("example")["cost"].max()
    rows = rows.assign(cost=rows["example"].map(cost)).query("cost > 0")
    if rows.empty:
        return None
    names = [name for name in telling(conditions) if name not in ("forcing", "answer_only")]
    titles = {(one["run"], one["condition"]): _panel_title(one, names) for one in in_order(conditions)}
    how = pd.Series([titles[key] for key in zip(rows["run"], rows["condition"])], index=rows.index)
    rows = rows.assign(bin=rows["cost"].map(lambda tokens: 2 ** (int(tokens).bit_length() - 1)))
    variants = list(dict.fromkeys(rows["variant"]))
    shown = [one for one in dict.fromkeys(titles.values()) if (how == one).any()]
    figure, panels = plotting.panels(len(shown))
    for panel, name in zip(panels, shown):
        mine = rows[how == name]
        for (variant, _), group in mine.groupby(["variant", "run"], sort=False):
            found = {
                at: rate(one["right"].astype(bool).tolist(), one["cluster"].tolist())[:3]
                for at, one in group.groupby("bin")
            }
            plotting.line(panel, found, str(variant), variants.index(variant))
        baselines.draw(panel, baselines.by(mine, mine["bin"]))
        plotting.powers(panel)
        plotting.rates(panel)
        panel.set(xlabel=AXES["trace_tokens"] + ", from", title=name)
    panels[0].set_ylabel("right answers")
    plotting.legend(figure, panels)
    return figure


def _panel_title(condition: ConditionSummary, names: Sequence[str]) -> str:
    labels = condition["labels"]
    if labels["answer_only"]:
        said = ["answer at once", named(labels, [name for name in names if name not in ("spacing", "locals")])]
    else:
        said = [fed(labels["forcing"]), named(labels, names)]
    return "\n".join(filter(None, said))


def held_out_section(
    name: str, conditions: Sequence[ConditionSummary], records: pd.DataFrame, requests: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """Programs with and without what was held out from training; nothing where no run has held anything out."""
    tasks = {request["run"]: request["trained_on"] or {} for request in requests if "trained_on" in request}
    labels = [label for label in varying(conditions) if label != "function"]
    table_ = [["Run", *map(title, labels), "Depth held out", "Of trained functions", "With one held out", WITHOUT]]
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in in_order(conditions):
        task = tasks.get(one["run"], {})
        if task.get("held_out_depths") or task.get("held_out_functions"):
            key = (one["run"], *(text(one["labels"].get(label, "")) for label in labels))
            groups.setdefault(key, []).append(one["condition"])
    for (run, *values), names in groups.items():
        rows = answered(records[(records["run"] == run) & records["condition"].isin(names)])
        rows = rows[rows["functions"] != ""]
        if rows.empty:
            continue
        used = rows["functions"].str.split()
        new = ~used.map(set(tasks[run].get("held_out_functions", ())).isdisjoint).astype(bool)
        deep = used.map(len).isin(tasks[run].get("held_out_depths", ()))
        for kept, said in ((~deep, "no"), (deep, "yes")):
            if kept.any():
                without = baselines.best([{"baselines": baselines.baselines(rows[kept])}])
                table_.append([run, *values, said, _held(rows[kept & ~new]), _held(rows[kept & new]), without])
    return [Section(f"{name}: held out from training", rows=table_, note=HELD_OUT)] if len(table_) > 1 else []


def _held(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    found = rate(rows["right"].astype(bool).tolist(), rows["cluster"].tolist())
    programs = rows["example"].nunique()
    of = f"of {found.size}" + (f"\n{programs} programs" if programs < found.size else "")
    return f"{100 * found.mean:.{places(found.low, found.high)}f} %\n{interval(found.low, found.high)}\n{of}"
