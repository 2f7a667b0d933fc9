"""Sections of reports, and how tables show labels and rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from remedy.eval.records.schema import COMMON, LABELS, LabelValue, rank
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.stats import Difference, Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHOUT = "Without a model"
"""The head of the column of the best rule without a model."""
RIGHT, FAILURES, RECORDS, TOKENS, RUNS = "Right answers", "Failures", "Records", "Tokens", "Runs and training"
"""Groups of sections in order, each folded away under its name."""
GROUPS = (RIGHT, FAILURES, RECORDS, TOKENS, RUNS)

Rows = list[list[str]]
"""A table: the head, then rows. Text after a line break in a cell is small print."""


class Section(NamedTuple):
    """A part of a report: a table or a figure.

    `title`: unique, since it names the figure's file. `draw`: a result of None leaves the section out. `note`: shown at
    the first section that has it; `own`: a note that is always shown. `links`: files by cells' text.
    """

    title: str
    rows: Rows | None = None
    draw: Callable[[], Figure | None] | None = None
    note: str = ""
    links: Mapping[str, str] = {}
    group: str = RIGHT
    own: str = ""


class Published(NamedTuple):
    """Published figures, by column; `unlike`: how they differ from ours."""

    name: str
    labels: Mapping[str, LabelValue]
    metrics: Mapping[str, str]
    unlike: str


def tidied(rows: Rows) -> Rows:
    """Drop columns whose cells are all empty or 0."""
    filled = [column for column in range(len(rows[0])) if any(row[column] not in ("", "0", "0 %") for row in rows[1:])]
    return [[row[column] for column in filled] for row in rows]


def text(value: object) -> str:
    """Write a label's or setting's value as in YAML."""
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def title(label: str) -> str:
    return LABELS[label].title if label in LABELS else label.replace("_", " ").capitalize()


def ordered_labels(conditions: Iterable[ConditionSummary]) -> list[str]:
    """List labels, diagnostics' own first."""
    common = [label.name for label in COMMON]
    names = dict.fromkeys(name for condition in conditions for name in condition["labels"])
    position = {name: number for number, name in enumerate(LABELS)}
    return sorted(names, key=lambda name: (name in common, position.get(name, len(position))))


def varying(conditions: Sequence[ConditionSummary]) -> list[str]:
    """List the labels by which conditions differ."""
    values = {
        name: {repr(condition["labels"].get(name)) for condition in conditions} for name in ordered_labels(conditions)
    }
    return [name for name, distinct in values.items() if len(distinct) > 1]


def telling(conditions: Sequence[ConditionSummary]) -> list[str]:
    """List the labels by which conditions of one run differ."""
    runs = {condition["run"] for condition in conditions}
    within_runs = {
        name for run in runs for name in varying([condition for condition in conditions if condition["run"] == run])
    }
    return [name for name in varying(conditions) if name in within_runs]


def constant(conditions: Sequence[ConditionSummary]) -> str:
    """Write the labels that all conditions share."""
    shared = [name for name in ordered_labels(conditions) if name not in varying(conditions)]
    pairs = [f"{name} {text(value)}" for name in shared if (value := conditions[0]["labels"][name]) != ""]
    return f"All with {', '.join(pairs)}." if pairs else ""


def named(labels: Mapping[str, LabelValue], names: Iterable[str]) -> str:
    """Write labels that are not false or empty: `spacing 4, forcing free`."""
    return ", ".join(
        name if value is True else f"{name} {text(value)}"
        for name, value in ((name, labels.get(name, "")) for name in names)
        if value is not False and value != ""
    )


def in_order(conditions: Sequence[ConditionSummary]) -> list[ConditionSummary]:
    """Sort conditions by run, then by labels."""
    runs = list(dict.fromkeys(condition["run"] for condition in conditions))
    names = ordered_labels(conditions)

    def position(condition: ConditionSummary) -> tuple[object, ...]:
        labels = condition["labels"]
        return (runs.index(condition["run"]), *((name in labels, rank(name, labels.get(name, ""))) for name in names))

    return sorted(conditions, key=position)


def rated(mean: float, low: float, high: float) -> str:
    """Write a rate as `93 %`, with `89 to 96 %` in small print."""
    return f"{rate_text(mean, low, high)}\n{interval(low, high)}"


def rate_text(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:.{decimals(low, high)}f} %"


def percent(estimate: Estimate | None) -> str:
    return "" if estimate is None else rated(*estimate[:3])


def joined(separator: str, *parts: str) -> str:
    return separator.join(filter(None, parts))


def mean_of(intervals: Iterable[Estimate | None]) -> str:
    """Write one run's rate as `rated`, or several runs' mean and range."""
    estimates = [estimate for estimate in intervals if estimate is not None]
    if len(estimates) < 2:
        return percent(estimates[0]) if estimates else ""
    means = [estimate.mean for estimate in estimates]
    mean, low, high = sum(means) / len(means), min(means), max(means)
    return f"{100 * mean:.0f} %" if low == high else f"{rate_text(mean, low, high)}\nruns {interval(low, high)}"


def interval(low: float, high: float) -> str:
    """Write the ends of an interval of rates: `89 to 96 %`."""
    count = decimals(low, high)
    return f"{100 * low:.{count}f} to {100 * high:.{count}f} %"


def points_of(difference: Difference) -> str:
    """Write a difference with its 95 % interval: `-14 points (-18 to -9)`."""
    low, high = difference.interval()
    return f"{100 * difference.mean:+.0f} points ({100 * low:+.0f} to {100 * high:+.0f})"


def decimals(low: float, high: float) -> int:
    """Return the decimals of a percentage: one if its interval is narrow."""
    return 1 if high - low < 0.02 else 0
