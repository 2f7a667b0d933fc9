"""What reports are made of: sections, and the labels and rates of conditions as their tables show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from remedy.eval.records import baselines, remarks
from remedy.eval.records.schema import COMMON, LABELS, LabelValue, rank
from remedy.eval.records.summary import ConditionSummary, Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHOUT = "Without a model"
"""The column of the best that is right without a model."""

Rows = list[list[str]]
"""A table; the first row is its head. What follows a line break in a cell is small print."""


class Section(NamedTuple):
    """A part of a report: a table or a figure. Its title, which no other section has, names the figure's file. `draw`: makes the
    figure; None where there is nothing to draw, and then the section is left out."""

    title: str
    rows: Rows | None = None
    draw: Callable[[], Figure | None] | None = None
    note: str = ""
    links: Mapping[str, str] = {}
    """Where cells lead to that are one of these texts: files beside the report."""


class Published(NamedTuple):
    """Figures that others published, shown beside conditions with these labels. `metrics`: by the heads of columns; `unlike`: in what
    they were made otherwise than ours, a sentence that stands wherever they do."""

    name: str
    labels: Mapping[str, LabelValue]
    metrics: Mapping[str, str]
    unlike: str

    def beside(self, conditions: Iterable[ConditionSummary]) -> bool:
        """Whether one of the conditions is like the published one."""
        return any(self.labels.items() <= condition["labels"].items() for condition in conditions)


def text(value: LabelValue) -> str:
    """A label's value as configurations write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def title(label: str) -> str:
    """The head of a label's column."""
    return LABELS[label].title if label in LABELS else label.replace("_", " ").capitalize()


def ordered_labels(conditions: Iterable[ConditionSummary]) -> list[str]:
    """The labels that conditions have: their diagnostics' own ones, then those of all conditions, as they are declared."""
    common = [one.name for one in COMMON]
    names = list(dict.fromkeys(name for condition in conditions for name in condition["labels"]))
    places = {name: place for place, name in enumerate(LABELS)}
    return sorted(names, key=lambda name: (name in common, places.get(name, len(places))))


def varying(conditions: Sequence[ConditionSummary]) -> list[str]:
    """The labels that tell some of the conditions apart."""
    return [
        name
        for name in ordered_labels(conditions)
        if len({repr(condition["labels"].get(name)) for condition in conditions}) > 1
    ]


def telling(conditions: Sequence[ConditionSummary]) -> list[str]:
    """The labels that tell apart conditions of one run, which its name does not."""
    groups: dict[str, list[ConditionSummary]] = {}
    for condition in conditions:
        groups.setdefault(condition["run"], []).append(condition)
    found = {name for group in groups.values() for name in varying(group)}
    return [name for name in varying(conditions) if name in found]


class Line(NamedTuple):
    """Conditions of one run that stand on one line along an axis. `labels`: those that tell it from the run's other lines."""

    run: str
    labels: Mapping[str, LabelValue]
    conditions: list[ConditionSummary]

    @property
    def kind(self) -> str:
        """What the line is, besides its run and forcing."""
        return named(self.labels, [name for name in self.labels if name != "forcing"])


def lines(conditions: Sequence[ConditionSummary], names: Sequence[str], axis: str) -> list[Line]:
    """The lines along `axis`, told apart by labels among `names`.

    Each of these labels tells lines apart, but those that a line runs through (`Label.along`): of these, only where conditions that
    are else alike would have several at one value of the axis.
    """
    along = LABELS[axis].along if axis in LABELS else ()
    others = [name for name in names if name != axis and name not in along]
    alike: dict[tuple[LabelValue, ...], list[ConditionSummary]] = {}
    for condition in conditions:
        alike.setdefault(tuple(_of(condition, name) for name in others), []).append(condition)
    told = {key: {*others, *(name for name in along if _several(group, name, axis))} for key, group in alike.items()}
    found: dict[tuple[object, ...], Line] = {}
    for condition in conditions:
        kept = told[tuple(_of(condition, name) for name in others)]
        labels = {name: _of(condition, name) for name in names if name in kept}
        line = found.setdefault((condition["run"], *labels.items()), Line(condition["run"], labels, []))
        line.conditions.append(condition)
    shown = {name for line in found.values() for name in line.labels}
    said = [_saying(line, [name for name in names if name in shown]) for line in found.values()]
    runs = list(dict.fromkeys(line.run for line in said))

    def place(line: Line) -> tuple[object, ...]:
        values = [(name, line.labels.get(name, "")) for name in (*others, *along)]
        return (runs.index(line.run), *((value != "", rank(name, value)) for name, value in values))

    return sorted(said, key=place)


def _saying(line: Line, names: Sequence[str]) -> Line:
    """The line with those labels that are its own, or that other lines are told apart by and all of its conditions share."""
    values = {name: {_of(condition, name) for condition in line.conditions} for name in names}
    return line._replace(
        labels={name: next(iter(found)) for name, found in values.items() if name in line.labels or len(found) == 1}
    )


def _several(conditions: Sequence[ConditionSummary], name: str, axis: str) -> bool:
    """Whether a label has several values at one value of an axis."""
    values: dict[LabelValue, set[LabelValue]] = {}
    for condition in conditions:
        values.setdefault(_of(condition, axis), set()).add(_of(condition, name))
    return any(len(found) > 1 for found in values.values())


def constant(conditions: Sequence[ConditionSummary]) -> str:
    """The labels that all of the conditions share, as a sentence; empty if there are none."""
    shared = [name for name in ordered_labels(conditions) if name not in varying(conditions)]
    said = [f"{name} {text(value)}" for name in shared if (value := conditions[0]["labels"][name]) != ""]
    return f"All with {', '.join(said)}." if said else ""


def named(labels: Mapping[str, LabelValue], names: Iterable[str]) -> str:
    """Some of a condition's labels in one line: `spacing 4, forcing free`. A label that is false or empty is not said."""
    said = []
    for name in names:
        value = labels.get(name)
        if value is True:
            said.append(name)
        elif value not in (None, "", False):
            said.append(f"{name} {text(value)}")
    return ", ".join(said)


def in_order(conditions: Sequence[ConditionSummary]) -> list[ConditionSummary]:
    """Conditions run by run, each run's by the order of their labels' values."""
    runs = list(dict.fromkeys(condition["run"] for condition in conditions))
    names = ordered_labels(conditions)

    def place(condition: ConditionSummary) -> tuple[object, ...]:
        labels = condition["labels"]
        return (runs.index(condition["run"]), *((name in labels, rank(name, labels.get(name, ""))) for name in names))

    return sorted(conditions, key=place)


def percent(found: Interval | None) -> str:
    """A rate with its interval: `93 %`, and `89 to 96 %` in small print; empty if there is none."""
    if found is None:
        return ""
    low, high = found["low"], found["high"]
    return f"{100 * found['mean']:.{places(low, high)}f} %\n{interval(low, high)}"


def judged(condition: ConditionSummary) -> str:
    """The rate of right answers of a condition as `percent` writes it, with what has to be said of it in small print."""
    return "\n".join([percent(condition["right"]), *remarks.of_condition(condition)])


def interval(low: float, high: float) -> str:
    """The ends of an interval of rates, in as many places as its width lets be known: `89 to 96 %`."""
    shown = places(low, high)
    return f"{100 * low:.{shown}f} to {100 * high:.{shown}f} %"


def points(value: float) -> str:
    """A difference of rates in points: `+12.5`."""
    return f"{100 * value:+.1f}"


def places(low: float, high: float) -> int:
    """Decimal places of a percentage: one where its interval is narrower than two points."""
    return 1 if high - low < 0.02 else 0


def sized(condition: ConditionSummary) -> str:
    """How many examples there are; in small print, how many programs, and as how many they count, where that is fewer."""
    said = str(condition["examples"])
    if condition["programs"] < condition["examples"]:
        said += f"\n{condition['programs']} programs"
    if condition["clusters"] < condition["programs"]:
        said += f"\nin {condition['clusters']} clusters"
    right = condition["right"]
    if condition["clusters"] < condition["examples"] and right is not None:
        said += f"\nas good as {right['effective']:.0f}"
    return said


def p_value(p: float) -> str:
    """A p-value to three places."""
    return f"{p:.3f}" if p >= 0.001 else "<\N{NO-BREAK SPACE}0.001"


def rate_table(conditions: Sequence[ConditionSummary], across: str) -> Rows:
    """Right answers with intervals and the mean tokens of a trace: a column for every value of `across`, which is a label or
    `run`, and a row for every combination of the run and the other labels that vary."""
    ordered = in_order(conditions)
    names = varying(ordered)
    if across == "run":
        return _runs_side_by_side(ordered, names)
    found = lines(ordered, names, across)
    told = [name for name in names if any(name in line.labels for line in found)]
    columns = sorted({_of(condition, across) for condition in ordered}, key=lambda value: rank(across, value))
    rows = [["Run", *map(title, told), *(f"{title(across)} {text(column)}" for column in columns)]]
    for line in found:
        cells = {_of(condition, across): _cell(condition) for condition in line.conditions}
        rows.append(
            [
                line.run,
                *(text(line.labels.get(name, "")) for name in told),
                *(cells.get(column, "") for column in columns),
            ]
        )
    for name in baselines.of(ordered):
        shares = [baselines.of(c for c in ordered if _of(c, across) == column).get(name) for column in columns]
        said = [baselines.said(share) if share else "" for share in shares]
        rows.append([baselines.NAMES[name], *[""] * len(told), *said])
    return rows


def _runs_side_by_side(conditions: Sequence[ConditionSummary], names: Sequence[str]) -> Rows:
    """A column for every run."""
    runs = list(dict.fromkeys(condition["run"] for condition in conditions))
    groups: dict[tuple[LabelValue, ...], list[ConditionSummary]] = {}
    for condition in conditions:
        groups.setdefault(tuple(_of(condition, name) for name in names), []).append(condition)
    rows = []
    for key, group in groups.items():
        cells = {condition["run"]: _cell(condition) for condition in group}
        rows.append([*map(text, key), *(cells.get(run, "") for run in runs)])
    best = [baselines.best(group) for group in groups.values()]
    head = [*map(title, names), *runs]
    return [[*head, WITHOUT], *([*row, one] for row, one in zip(rows, best))] if any(best) else [head, *rows]


def _cell(condition: ConditionSummary) -> str:
    if condition["right"] is None:
        return ""
    rate = f"{percent(condition['right'])}; {condition['trace_tokens']:.0f} tokens"
    return "\n".join([rate, *remarks.of_condition(condition)])


def _of(condition: ConditionSummary, name: str) -> LabelValue:
    return condition["labels"].get(name, "")
