"""Common parts of figures: panels, lines with intervals, axes and legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from remedy.eval.tables.colours import COLOURS

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
PANEL_COLUMNS = 3
LEGEND_CHARACTERS = 105
"""Characters that fit into a legend's row at full width."""
WIDTH = 9.6
"""Inches of a figure: the width of the page."""
Interval = tuple[float, float, float]
"""An estimate and the ends of its interval."""

rcParams.update(
    {
        "font.size": 11,
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "figure.dpi": 110,
        "svg.hashsalt": "remedy",  # else ids are random, and a figure drawn twice differs
        "legend.frameon": False,
    }
)


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def panels(count: int, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels; `shared`: with one vertical axis."""
    rows = -(-count // PANEL_COLUMNS)
    columns = -(-count // rows)  # fills rows evenly: 4 panels are 2 and 2, not 3 and 1
    figure = Figure(figsize=(WIDTH, 3.4 * rows + 0.3 if columns > 1 else 3.8 * rows))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=shared)
    axes = [axis for line in grid for axis in line]
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def line(panel: Axes, points: Mapping[Any, Interval], label: str, number: int, style: str = "-") -> None:
    """Draw estimates with intervals; `number` chooses colour and marker."""
    xs = sorted(points)
    if not xs:
        return
    centre, low, high = zip(*(points[x] for x in xs))
    if len(xs) > 1:
        panel.fill_between(xs, low, high, color=colour(number), alpha=0.13, lw=0)
    else:
        panel.vlines(xs, low, high, color=colour(number), alpha=0.5, lw=1.2)
    panel.plot(xs, centre, style, marker=MARKERS[number % len(MARKERS)], color=colour(number), label=label)


def rates(panel: Axes) -> None:
    """Show 0 to 100 % on the vertical axis."""
    panel.set_ylim(-0.03, 1.03)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))


def numbers(panel: Axes, values: Sequence[float]) -> None:
    """Show values on the horizontal axis, by doublings if they range widely."""
    ticks = sorted(set(values))
    if ticks[0] > 0 and ticks[-1] >= 8 * ticks[0]:
        panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [f"{value:g}" for value in ticks])
    panel.minorticks_off()


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Lay out the figure with one legend below all panels."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.tight_layout()
    longest = max(map(len, handles), default=1) + 6
    columns = max(1, min(4, len(handles), LEGEND_CHARACTERS // longest))
    figure.legend(
        list(handles.values()), list(handles), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, fontsize=10
    )
