"""The parts of reports: sections, and labels and rates of conditions as their tables show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from remedy.eval.records.schema import COMMON, LABELS, LabelValue, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import Difference, Estimate

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
    texts, files beside the report; `own`: said after the note, which stands only where it is first needed."""

    title: str
    rows: Rows | None = None
    draw: Callable[[], Figure | None] | None = None
    note: str = ""
    links: Mapping[str, str] = {}
    group: str = RIGHT
    own: str = ""


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


def tidied(rows: Rows) -> Rows:
    """A table without columns that say nothing: all cells are empty, or 0."""
    said = [place for place in range(len(rows[0])) if any(row[place] not in ("", "0", "0 %") for row in rows[1:])]
    return [[row[place] for place in said] for row in rows]


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


def percent(found: Estimate | None) -> str:
    """A rate of a summary as `rated`; empty if there is none."""
    return "" if found is None else rated(found.mean, found.low, found.high)


def mean_of(intervals: Iterable[Estimate | None]) -> str:
    """A share of one run with its interval, or the mean of several with the lowest and highest; empty where there is none."""
    found = [one for one in intervals if one is not None]
    if len(found) < 2:
        return percent(found[0]) if found else ""
    means = [one.mean for one in found]
    mean, low, high = sum(means) / len(means), min(means), max(means)
    if low == high:
        return f"{100 * mean:.0f} %"
    return f"{100 * mean:.{places(low, high)}f} %\nruns {interval(low, high)}"


def interval(low: float, high: float) -> str:
    """The ends of an interval of rates, in as many places as its width lets be known: `89 to 96 %`."""
    shown = places(low, high)
    return f"{100 * low:.{shown}f} to {100 * high:.{shown}f} %"


def points_of(found: Difference) -> str:
    """A difference with its 95 % interval: `-14 points (-18 to -9)`."""
    low, high = found.interval()
    return f"{100 * found.difference:+.0f} points ({100 * low:+.0f} to {100 * high:+.0f})"


def places(low: float, high: float) -> int:
    """Decimal places of a percentage: one where its interval is narrower than two points."""
    return 1 if high - low < 0.02 else 0
