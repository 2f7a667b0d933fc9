"""What the report's figures share: colours, markers, panels, legends, and a line of rates with its interval."""

from __future__ import annotations

from typing import Any

import matplotlib

matplotlib.use("Agg")

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from remedy.eval.colours import COLOURS
from remedy.eval.stats import rate

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
LINES = ["-", "--", ":", "-."]
CLASS_COLOURS = {
    "right": "#DDDDDD",
    "truncated": "#7F7F7F",
    "runaway": "#000000",
    "malformed": "#E69F00",
    "wrong action": "#D55E00",
    "wrong state": "#0072B2",
    "wrong return": "#009E73",
}

plt.rcParams.update(
    {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "figure.dpi": 110,
        "svg.hashsalt": "remedy",
        "legend.frameon": False,
    }
)


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels that share an axis of rates."""
    columns = min(count, 3)
    lines = -(-count // columns)
    size = (max(5.2, 3.7 * columns), 3.5 * lines + 0.3)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=True)
    axes = [axis for line in grid for axis in line]
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def runs(records: pd.DataFrame) -> list[str]:
    """All runs in order: a run's place gives its colour and marker in every figure."""
    return list(dict.fromkeys(records["run"]))


def rate_line(panel: Axes, rows: pd.DataFrame, x: str, label: str, number: int, style: str = "-") -> None:
    """The share of right answers against a column, with Wilson intervals; `number` gives colour and marker."""
    if rows.empty:
        return
    points: list[tuple[Any, Any]] = [(at, rate(group["final_right"].tolist())) for at, group in rows.groupby(x)]
    xs = [at for at, _ in points]
    colour = COLOURS[number % len(COLOURS)]
    panel.plot(xs, [r.mean for _, r in points], style, marker=MARKERS[number % 8], color=colour, label=label)
    panel.fill_between(xs, [r.low for _, r in points], [r.high for _, r in points], color=colour, alpha=0.13, lw=0)


def stacked_shares(labels: pd.Series, parts: pd.Series, colours: dict[str, str], what: str) -> Figure:
    """One horizontal bar for every label, in order of appearance, of the shares of its parts, in the order of `colours`."""
    shares = parts.groupby(labels, sort=False).value_counts(normalize=True).unstack(fill_value=0.0)
    shares = shares.loc[list(dict.fromkeys(labels))]
    figure, axis = plt.subplots(figsize=(8, 0.38 * len(shares) + 1.4))
    left = pd.Series(0.0, index=shares.index)
    for part, colour in colours.items():
        if part in shares:
            axis.barh(shares.index, shares[part], left=left, color=colour, label=part)
            left = left + shares[part]
    axis.invert_yaxis()
    axis.set(xlabel=what, xlim=(0, 1))
    axis.grid(axis="y", visible=False)
    legend(figure, axis)
    return figure


def legend(figure: Figure, axis: Axes) -> None:
    """Lay the figure out with one legend below it."""
    handles, labels = axis.get_legend_handles_labels()
    figure.tight_layout()
    columns = min(3, len(labels))
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, fontsize=9)
