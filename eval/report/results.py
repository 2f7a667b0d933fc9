"""How often each run is right under each condition of a diagnostic: a table and a figure, whatever the diagnostic is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from remedy.eval.records import baselines
from remedy.eval.records.remarks import NOTE
from remedy.eval.records.schema import LABELS, TRACE_COLUMNS, answered
from remedy.eval.records.summary import ConditionSummary, Interval
from remedy.eval.report.along import Drawn, figure_along
from remedy.eval.stats import rate
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS
from remedy.eval.tables.plotting import MARKERS
from remedy.eval.tables.sections import (
    WITHOUT,
    Line,
    Published,
    Rows,
    Section,
    constant,
    in_order,
    judged,
    named,
    percent,
    rate_table,
    sized,
    telling,
    text,
    title,
    varying,
)

RATES = (
    "Share of right answers with its Wilson 95 % interval over clusters, and the mean tokens of a true trace without its program and "
    "given first frame."
)
METRICS = (
    "Rates with Wilson intervals over clusters: executions of one function, and a program drawn twice, stand or fall together, and "
    "count as so many independent examples as is said. State, action and variable matches are shares of a trace's frames, averaged "
    "over traces, with t intervals over clusters; a program that is not decoded counts as nothing right."
)


def axis_sections(
    name: str, axis: str, conditions: Sequence[ConditionSummary], variants: Mapping[str, str]
) -> list[Section]:
    """The sections of a diagnostic whose conditions differ in a number above all, as in the horizon of programs. `variants`: of
    every run."""
    how = f"{name}: right answers by {axis}"
    judged = [condition for condition in conditions if condition["right"] is not None]
    if not judged:
        return []
    several = len({variants[one["run"]] for one in judged}) < len({one["run"] for one in judged})
    note = said(judged, axis) + (
        " A line for every run; runs that differ in their seeds have one colour." if several else ""
    )
    return [
        Section(how, draw=partial(accuracy_by_axis, judged, axis, variants), note=note.strip()),
        Section(f"{how}, in numbers", rows=rate_table(judged, axis), note=f"{RATES} {NOTE}"),
    ]


def said(conditions: Sequence[ConditionSummary], axis: str) -> str:
    """What the axis is, and what all conditions share."""
    meaning = f"{title(axis)}: {LABELS[axis].meaning} " if axis in LABELS else ""
    return meaning + constant(conditions)


def accuracy_by_axis(conditions: Sequence[ConditionSummary], axis: str, variants: Mapping[str, str]) -> Figure:
    """Right answers against a label, a line for every run and combination of the other labels, a panel for every forcing. Runs of one
    variant have one colour."""

    def drawn(group: Sequence[Line]) -> list[Drawn]:
        return [
            Drawn(
                {
                    float(one["labels"][axis]): (right["mean"], right["low"], right["high"])
                    for one in line.conditions
                    if (right := one["right"]) is not None
                }
            )
            for line in group
        ]

    return figure_along(conditions, axis, variants, drawn, "answers right")


def metric_sections(
    name: str, conditions: Sequence[ConditionSummary], published: Sequence[Published] = ()
) -> list[Section]:
    """The section of a diagnostic whose conditions differ in kind."""
    environments = "; ".join(sorted({place for condition in conditions for place in condition["environments"]}))
    left_out = untraced(conditions)
    notes = [METRICS, NOTE, constant(conditions), f"Programs ran on {environments}." if environments else ""]
    notes.append(f"Left out, since they could not be run: {left_out}." if left_out else "")
    notes += [f"{found.name}: {found.unlike}" for found in published if found.beside(conditions)]
    return [Section(name, rows=metric_table(conditions, published), note=" ".join(filter(None, notes)))]


def untraced(conditions: Sequence[ConditionSummary]) -> str:
    """How many programs could not be run, by outcome: the most of any condition, since conditions share their programs."""
    most: dict[str, int] = {}
    for condition in conditions:
        for outcome, count in condition["untraced"].items():
            most[outcome] = max(count, most.get(outcome, 0))
    return ", ".join(f"{outcome} {count}" for outcome, count in most.items())


def metric_table(conditions: Sequence[ConditionSummary], published: Sequence[Published] = ()) -> Rows:
    """One row for every condition, then what is published on conditions like these."""
    labels = varying(conditions)
    rows = []
    for condition in in_order(conditions):
        rows.append(
            {
                "Run": condition["run"],
                **{title(name): text(condition["labels"].get(name, "")) for name in labels},
                "Examples": sized(condition),
                "Answer right": judged(condition),
                WITHOUT: baselines.best([condition]),
                "Valid format": percent(condition["valid_format"]),
                "State exact": percent(condition["state_exact"]),
                "Action exact": percent(condition["action_exact"]),
                "Variables": percent(condition["key_match"]),
                "With values": percent(condition["key_value_match"]),
                "Tokens a state": _number(condition["tokens_per_state"]),
                "Tokens an action": _number(condition["tokens_per_action"]),
            }
        )
    for found in published:
        if found.beside(conditions):
            rows.append({"Run": found.name, **{title(k): text(v) for k, v in found.labels.items()}, **found.metrics})
    head = list(rows[0])
    return [head, *([row.get(name, "") for name in head] for row in rows)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def accuracy_by_cost(conditions: Sequence[ConditionSummary], variants: Mapping[str, str]) -> Figure:
    """Right answers with their intervals against the mean tokens of a trace, a point for every run and condition: a panel for every
    forcing, a colour for every variant, a marker for every diagnostic, and for answers at once."""
    judged = [condition for condition in in_order(conditions) if condition["right"] is not None]
    names = list(dict.fromkeys(variants[one["run"]] for one in judged))
    kinds = list(dict.fromkeys(_kind(one) for one in judged))
    forcings = list(dict.fromkeys(str(one["labels"]["forcing"]) for one in judged))
    figure, axes = plotting.panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        mine = [one for one in judged if one["labels"]["forcing"] == forcing]
        groups: dict[tuple[str, str, str], list[tuple[float, Interval]]] = {}
        for one in mine:
            assert one["right"] is not None
            key = one["run"], variants[one["run"]], _kind(one)
            groups.setdefault(key, []).append((one["trace_tokens"], one["right"]))
        for (_, name, kind), found in groups.items():
            number, colour = names.index(name), COLOURS[names.index(name) % len(COLOURS)]
            marker = MARKERS[(kinds.index(kind) if len(kinds) > 1 else number) % len(MARKERS)]
            found = sorted(found, key=lambda point: point[0])
            at = [tokens for tokens, _ in found]
            panel.vlines(
                at, [one["low"] for _, one in found], [one["high"] for _, one in found], color=colour, alpha=0.4
            )
            label = plotting.called(name, kind if len(kinds) > 1 else "")
            panel.plot(at, [one["mean"] for _, one in found], marker, color=colour, label=label, alpha=0.8)
        baselines.mark(panel, ((one["trace_tokens"], one) for one in mine))
        plotting.powers(panel)
        plotting.rates(panel)
        panel.set(xlabel="tokens of the true trace, mean", title=forcing)
    axes[0].set_ylabel("answers right")
    plotting.key(figure, axes, names, kinds, kinds)
    return figure


def _kind(condition: ConditionSummary) -> str:
    return condition["diagnostic"] + (", answer_only" if condition["labels"]["answer_only"] else "")


def by_trace_tokens(records: pd.DataFrame, conditions: Sequence[ConditionSummary]) -> Figure | None:
    """Right answers by the tokens of an example's longest true trace, in doublings: a line for every run, and a panel for every forcing
    and combination of the other labels that tell its conditions apart. Runs of one variant have one colour.

    Answers at once stand where the traces of the same programs do. None if no record has a trace.
    """
    rows = answered(records)
    rows = rows.assign(cost=records[TRACE_COLUMNS].sum(axis=1))
    cost = rows[~rows["answer_only"].astype(bool)].groupby("example")["cost"].max()
    rows = rows.assign(cost=rows["example"].map(cost)).query("cost > 0")
    if rows.empty:
        return None
    titles = _panel_titles(conditions)
    how = pd.Series([titles[key] for key in zip(rows["run"], rows["condition"])], index=rows.index)
    rows = rows.assign(bin=rows["cost"].map(lambda tokens: 2 ** (int(tokens).bit_length() - 1)))
    variants = list(dict.fromkeys(rows["variant"]))
    shown = [one for one in dict.fromkeys(titles.values()) if (how == one).any()]
    figure, axes = plotting.panels(len(shown))
    for panel, name in zip(axes, shown):
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
        panel.set(xlabel="tokens of the true trace, from", title=name)
    axes[0].set_ylabel("answers right")
    plotting.legend(figure, axes)
    return figure


def _panel_titles(conditions: Sequence[ConditionSummary]) -> dict[tuple[str, str], str]:
    """For every condition of a run: how it is decoded, and in what else it differs from others. Answers at once show no states."""
    names = [name for name in telling(conditions) if name not in ("forcing", "answer_only")]
    found = {}
    for condition in in_order(conditions):
        labels, key = condition["labels"], (condition["run"], condition["condition"])
        if labels["answer_only"]:
            said = ["answer_only", named(labels, [name for name in names if name not in ("spacing", "locals")])]
        else:
            said = [str(labels["forcing"]), named(labels, names)]
        found[key] = "\n".join(filter(None, said))
    return found
