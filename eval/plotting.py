"""What the report's figures share: colours, markers, panels, legends, and lines of rates with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from remedy.eval.colours import COLOURS

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
LINES = ["-", "--", ":", "-."]
PANEL_COLUMNS = 3
LEGEND_CHARACTERS = 105
"""Characters of a legend's row that fit below a figure of full width."""

plt.rcParams.update(
    {
        "font.size": 11,
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "figure.dpi": 110,
        "svg.hashsalt": "remedy",
        "legend.frameon": False,
    }
)

Interval = tuple[float, float, float]
"""An estimate and the ends of its interval."""


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels that share their vertical axis."""
    columns = min(count, PANEL_COLUMNS)
    lines = -(-count // columns)
    size = (max(6.4, 3.7 * columns), 3.6 * lines + 0.3)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, sharey=True)
    axes = [axis for line in grid for axis in line]
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def line(panel: Axes, points: Mapping[Any, Interval], label: str, number: int, style: str = "-") -> None:
    """Estimates with their intervals against numbers; `number` gives colour and marker."""
    xs = sorted(points)
    if not xs:
        return
    centre, low, high = zip(*(points[x] for x in xs))
    colour = COLOURS[number % len(COLOURS)]
    panel.plot(xs, centre, style, marker=MARKERS[number % len(MARKERS)], color=colour, label=label)
    panel.fill_between(xs, low, high, color=colour, alpha=0.13, lw=0)


def rates(panel: Axes) -> None:
    """Make an axis of rates: 0 to 100 %, with room for the markers at both ends."""
    panel.set_ylim(-0.03, 1.03)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))


def numbers(panel: Axes, values: Sequence[float]) -> None:
    """Make the horizontal axis show these values, by doublings where they range widely."""
    shown = sorted(set(values))
    if shown[0] > 0 and shown[-1] >= 8 * shown[0]:
        panel.set_xscale("log", base=2)
    panel.set_xticks(shown, [f"{value:g}" for value in shown])
    panel.minorticks_off()


def powers(panel: Axes) -> None:
    """Make the horizontal axis one of counts by doublings."""
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))


def stacked_shares(counts: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], what: str) -> Figure:
    """One horizontal bar for every name in `counts`, of the shares of its parts, in the order of `colours`."""
    names = list(counts)
    figure, axis = plt.subplots(figsize=(9, 0.36 * len(names) + 1.2))
    left = [0.0] * len(names)
    for part, colour in colours.items():
        shares = [counts[name].get(part, 0) / max(1, sum(counts[name].values())) for name in names]
        if any(shares):
            axis.barh(names, shares, left=left, height=0.75, color=colour, label=part)
            left = [start + share for start, share in zip(left, shares)]
    axis.set(xlabel=what, xlim=(0, 1), ylim=(len(names) - 0.5, -0.5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axis.grid(axis="y", visible=False)
    legend(figure, [axis])
    return figure


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Lay the figure out with one legend of all panels below it."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= {label: handle for label, handle in zip(labels, handles) if label not in found}
    figure.tight_layout()
    longest = max(map(len, found), default=1) + 6
    columns = max(1, min(4, len(found), LEGEND_CHARACTERS // longest))
    figure.legend(
        list(found.values()), list(found), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, fontsize=10
    )
