"""The parts of reports: sections, and the labels and rates of conditions as their tables show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from remedy.eval.records.schema import COMMON, LABELS, LabelValue, rank
from remedy.eval.records.summary import ConditionSummary, Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHOUT = "Without a model"
"""The column of the best that is right without a model."""
RIGHT, FAILURES, RECORDS, TOKENS, RUNS = "Right answers", "Failures", "Records", "Tokens", "Runs and training"
"""Groups of sections, each folded away under its name, in this order."""
GROUPS = (RIGHT, FAILURES, RECORDS, TOKENS, RUNS)

Rows = list[list[str]]
"""A table; the first row is its head. What follows a line break in a cell is small print."""


class Section(NamedTuple):
    """A part of a report: a table or a figure. Its title, which no other section has, names the figure's file. `draw`: makes the
    figure; None where there is nothing to draw, and then the section is left out. `links`: where cells lead to that are one of these
    texts, files beside the report."""

    title: str
    rows: Rows | None = None
    draw: Callable[[], Figure | None] | None = None
    note: str = ""
    links: Mapping[str, str] = {}
    group: str = RIGHT


def tidied(rows: Rows) -> Rows:
    """A table without columns that say nothing: all cells are empty, or 0."""
    said = [place for place in range(len(rows[0])) if any(row[place] not in ("", "0", "0 %") for row in rows[1:])]
    return [[row[place] for place in said] for row in rows]


def folded(rows: Rows, key: int = 1) -> tuple[Rows, str]:
    """A table with one row for all rows that are alike in the first `key` columns, which hold in one cell what they differ in; and a
    sentence on what all of several rows share, whose columns are left out."""
    head, count = rows[0], len(rows[0])
    frame = pd.DataFrame(rows[1:], columns=range(count))
    groups = frame.groupby(list(range(key)), sort=False)
    merged = [[_together(group[place]) for place in range(count)] for _, group in groups]
    shared = [
        place
        for place in range(key, count)
        if count > key + 1 and len(merged) > 1 and len({row[place] for row in merged}) == 1
    ]
    said = [f"{head[at].lower()} {merged[0][at].replace(chr(10), ', ')}" for at in shared if merged[0][at]]
    table = [[cell for place, cell in enumerate(row) if place not in shared] for row in [head, *merged]]
    return table, f"All rows: {'; '.join(said)}." if said else ""


def _together(cells: Iterable[str]) -> str:
    """Different cells in one: line by line, numbers as a range."""
    different = list(dict.fromkeys(cells))
    if len(different) == 1:
        return different[0]
    split = [cell.split("\n") for cell in different]
    if len({len(lines) for lines in split}) == 1 and len(split[0]) > 1:
        return "\n".join(_together(lines) for lines in zip(*split))
    parts = [re.split(r"(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)", cell, maxsplit=1) for cell in different]
    if len({(part[0], part[-1]) for part in parts}) > 1 or len(parts[0]) < 3:
        return " / ".join(different)
    numbers = sorted((part[1] for part in parts), key=lambda number: float(number.replace(",", "")))
    said = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 4 else ", ".join(numbers)
    return f"{parts[0][0]}{said}{parts[0][-1]}"


class Published(NamedTuple):
    """Figures that others published, shown beside conditions with these labels. `metrics`: by the heads of columns; `unlike`: in what
    they were made otherwise than ours, a sentence that stands wherever they do."""

    name: str
    labels: Mapping[str, LabelValue]
    metrics: Mapping[str, str]
    unlike: str

    def beside(self, conditions: Iterable[ConditionSummary]) -> bool:
        """Tell if one of the conditions is like the published one."""
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
    names = dict.fromkeys(name for condition in conditions for name in condition["labels"])
    places = {name: place for place, name in enumerate(LABELS)}
    return sorted(names, key=lambda name: (name in common, places.get(name, len(places))))


def varying(conditions: Sequence[ConditionSummary]) -> list[str]:
    """The labels that tell some of the conditions apart."""
    values = {name: {repr(one["labels"].get(name)) for one in conditions} for name in ordered_labels(conditions)}
    return [name for name, found in values.items() if len(found) > 1]


def telling(conditions: Sequence[ConditionSummary]) -> list[str]:
    """The labels that tell apart conditions of one run, which its name does not."""
    runs = {one["run"] for one in conditions}
    found = {name for run in runs for name in varying([one for one in conditions if one["run"] == run])}
    return [name for name in varying(conditions) if name in found]


class Line(NamedTuple):
    """Conditions of one run that stand on one line along an axis. `labels`: those that tell it from the run's other lines."""

    run: str
    labels: Mapping[str, LabelValue]
    conditions: list[ConditionSummary]

    @property
    def kind(self) -> str:
        """The name of the line, besides its run and forcing."""
        return named(self.labels, [name for name in self.labels if name != "forcing"])


def lines(conditions: Sequence[ConditionSummary], names: Sequence[str], axis: str) -> list[Line]:
    """The lines along `axis`, told apart by labels among `names`.

    Each of these labels tells lines apart, but those that a line runs through (`Label.along`): of these, only where conditions that
    are else alike would have several at one value of the axis.
    """
    along = LABELS[axis].along if axis in LABELS else ()
    others = [name for name in names if name != axis and name not in along]
    alike: dict[tuple[LabelValue, ...], list[ConditionSummary]] = {}
    for one in conditions:
        alike.setdefault(tuple(_of(one, name) for name in others), []).append(one)
    found: dict[tuple[object, ...], Line] = {}
    for group in alike.values():
        told = {*others, *(name for name in along if _several(group, name, axis))}
        for one in group:
            labels = {name: _of(one, name) for name in names if name in told}
            line = found.setdefault((one["run"], *labels.items()), Line(one["run"], labels, []))
            line.conditions.append(one)
    shown = [name for name in names if any(name in line.labels for line in found.values())]
    runs = list(dict.fromkeys(one["run"] for one in conditions))

    def place(line: Line) -> tuple[object, ...]:
        values = [(name, line.labels.get(name, "")) for name in (*others, *along)]
        return (runs.index(line.run), *((value != "", rank(name, value)) for name, value in values))

    return sorted((_saying(line, shown) for line in found.values()), key=place)


def _saying(line: Line, names: Sequence[str]) -> Line:
    """The line with those labels that are its own, or that other lines are told apart by and all of its conditions share."""
    values = {name: {_of(condition, name) for condition in line.conditions} for name in names}
    labels = {name: next(iter(found)) for name, found in values.items() if name in line.labels or len(found) == 1}
    return line._replace(labels=labels)


def _several(conditions: Sequence[ConditionSummary], name: str, axis: str) -> bool:
    """Tell if a label has several values at one value of an axis."""
    pairs = {(_of(condition, axis), _of(condition, name)) for condition in conditions}
    return len(pairs) > len({at for at, _ in pairs})


def constant(conditions: Sequence[ConditionSummary]) -> str:
    """The labels that all of the conditions share, as a sentence; empty if there are none."""
    shared = [name for name in ordered_labels(conditions) if name not in varying(conditions)]
    said = [f"{name} {text(value)}" for name in shared if (value := conditions[0]["labels"][name]) != ""]
    return f"All with {', '.join(said)}." if said else ""


def named(labels: Mapping[str, LabelValue], names: Iterable[str]) -> str:
    """Some of a condition's labels in one line: `spacing 4, forcing free`. A label that is false or empty is not said."""
    values = {name: labels.get(name) for name in names}
    said = {name: value for name, value in values.items() if value is not None and value is not False and value != ""}
    return ", ".join(name if value is True else f"{name} {text(value)}" for name, value in said.items())


def in_order(conditions: Sequence[ConditionSummary]) -> list[ConditionSummary]:
    """Conditions run by run, each run's by the order of their labels' values."""
    runs = list(dict.fromkeys(condition["run"] for condition in conditions))
    names = ordered_labels(conditions)

    def place(condition: ConditionSummary) -> tuple[object, ...]:
        labels = condition["labels"]
        return (runs.index(condition["run"]), *((name in labels, rank(name, labels.get(name, ""))) for name in names))

    return sorted(conditions, key=place)


def rated(mean: float, low: float, high: float) -> str:
    """A rate with its interval: `93 %`, and `89 to 96 %` in small print."""
    return f"{100 * mean:.{places(low, high)}f} %\n{interval(low, high)}"


def percent(found: Interval | None) -> str:
    """A rate of a summary as `rated`; empty if there is none."""
    return "" if found is None else rated(found["mean"], found["low"], found["high"])


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


class Group(NamedTuple):
    """One condition of a variant, with the summaries of its runs and their records."""

    variant: str
    labels: Mapping[str, LabelValue]
    runs: list[ConditionSummary]
    records: pd.DataFrame

    def total(self, key: str) -> int:
        """A number of all runs together."""
        return sum(run[key] for run in self.runs)  # type: ignore[literal-required]


def grouped(conditions: Sequence[ConditionSummary], records: pd.DataFrame | None = None) -> list[Group]:
    """The conditions of runs that differ in their seeds alone, together. `records`: of these conditions; without them groups have
    none."""
    rows: dict[Any, pd.DataFrame] = {}
    if records is not None and "condition" in records:
        rows = dict(list(records.groupby(["run", "condition"], sort=False)))
    found: dict[tuple[object, ...], list[ConditionSummary]] = {}
    for one in in_order(conditions):
        found.setdefault((one["variant"], one["diagnostic"], frozenset(one["labels"].items())), []).append(one)
    groups = []
    for runs in found.values():
        mine = [rows[key] for one in runs if (key := (one["run"], one["condition"])) in rows]
        groups.append(Group(runs[0]["variant"], runs[0]["labels"], runs, pd.concat(mine) if mine else pd.DataFrame()))
    return groups


def all_runs(groups: Sequence[Group]) -> list[ConditionSummary]:
    """The conditions of all runs of groups."""
    return [run for group in groups for run in group.runs]


def table(groups: Sequence[Group], columns: Mapping[str, Callable[[Group], str]], first: str = "Recipe") -> Rows:
    """A row for every group: its variant, the labels that vary (of two that are always equal, one), and columns; those that say nothing
    are left out."""
    values = {name: [text(group.labels.get(name, "")) for group in groups] for name in varying(all_runs(groups))}
    labels = [name for name in values if values[name] not in [values[other] for other in values if other < name]]
    rows = [[first, *map(title, labels), *columns]]
    for group in groups:
        about = [text(group.labels.get(name, "")) for name in labels]
        rows.append([group.variant, *about, *(cell(group) for cell in columns.values())])
    return tidied(rows)


def mean_of(intervals: Iterable[Interval | None]) -> str:
    """A share of one run with its interval, or the mean of several with the lowest and highest; empty where there is none."""
    found = [one for one in intervals if one is not None]
    if len(found) < 2:
        return percent(found[0]) if found else ""
    means = [one["mean"] for one in found]
    mean, low, high = sum(means) / len(means), min(means), max(means)
    if low == high:
        return f"{100 * mean:.0f} %"
    return f"{100 * mean:.{places(low, high)}f} %\nruns {interval(low, high)}"


def _of(condition: ConditionSummary, name: str) -> LabelValue:
    return condition["labels"].get(name, "")
