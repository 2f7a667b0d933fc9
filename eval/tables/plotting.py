"""The common parts of figures: colours, markers, panels, legends, and lines of rates with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import ScaledTranslation, Transform

from remedy.eval.records import baselines
from remedy.eval.tables.colours import COLOURS

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
Style = Literal["-", "--", ":", "-.", ""]
LINES: list[Style] = ["-", "--", ":", "-."]
PANEL_COLUMNS = 3
LEGEND_CHARACTERS = 105
"""Characters of a legend's row that fit below a figure of full width."""
MOST_ASIDE = 56.0
"""Typographic points that marks beside each other at one place take at most."""

rcParams.update(
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


WIDTH = 9.6
"""Inches of a figure: the width of the page."""


def colour(number: int) -> str:
    """The colour of a recipe."""
    return COLOURS[number % len(COLOURS)]


def style(number: int, each: int = len(COLOURS)) -> Style:
    """The line style of a recipe, another after all colours; `each`: after so many."""
    return LINES[number // each % len(LINES)]


def panels(count: int, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, which share their vertical axis or, not `shared`, have each its own."""
    rows = -(-count // PANEL_COLUMNS)
    columns = -(-count // rows)  # so that no row is much emptier than others
    figure = Figure(figsize=(WIDTH, 3.4 * rows + 0.3 if columns > 1 else 3.8 * rows))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=shared)
    axes = [axis for line in grid for axis in line]
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def line(
    panel: Axes,
    points: Mapping[Any, Interval],
    label: str,
    number: int,
    style: Style = "-",
    marker: int | None = None,
    aside: float = 0.0,
    band: bool = True,
) -> None:
    """Estimates with their intervals against numbers. `number` gives the colour, and the marker where `marker` gives no other;
    `aside`: how far to the right of its place it is drawn, in typographic points. Intervals are a band, or else, and of one point,
    bars."""
    xs = sorted(points)
    if not xs:
        return
    centre, low, high = zip(*(points[x] for x in xs))
    shade, place = colour(number), moved(panel, aside)
    shape = MARKERS[(number if marker is None else marker) % len(MARKERS)]
    if band and len(xs) > 1:
        panel.fill_between(xs, low, high, color=shade, alpha=0.13, lw=0)
    else:
        panel.vlines(xs, low, high, color=shade, alpha=0.5, lw=1.2, transform=place)
    panel.plot(xs, centre, style, marker=shape, color=shade, label=label, transform=place)


def moved(panel: Axes, aside: float) -> Transform:
    """Return where data stand in a panel, moved to the right by so many typographic points."""
    return panel.transData + ScaledTranslation(aside / 72, 0.0, panel.figure.dpi_scale_trans)


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


def called(name: str, kind: str) -> str:
    """The name of a line of a name and a kind."""
    return f"{name}, {kind}" if kind else name


def key(
    figure: Figure, axes: Sequence[Axes], names: Sequence[str], kinds: Sequence[str], alone: Collection[str] = ()
) -> None:
    """Lay the figure out with a legend of its lines, which are `called` by name and kind: where there are several kinds, a colour
    for every name and a style and marker for every kind, in place of an entry for each of both. `alone`: kinds of one point."""
    if len(kinds) < 2:
        return legend(figure, axes)
    entries: dict[str, Any] = {name: Line2D([], [], color=colour(number), lw=4) for number, name in enumerate(names)}
    for number, kind in enumerate(kinds):
        line: Style = "" if kind in alone else style(number, 1)
        marker = MARKERS[number % len(MARKERS)]
        entries[kind or "otherwise"] = Line2D([], [], color="0.25", linestyle=line, marker=marker)
    legend(figure, axes, entries, {called(name, kind) for name in names for kind in kinds})


def legend(
    figure: Figure, axes: Sequence[Axes], entries: Mapping[str, Any] | None = None, hidden: Collection[str] = ()
) -> None:
    """Lay the figure out with one legend of all panels below it: `entries` first, then what is drawn but for what is `hidden`."""
    found: dict[str, Any] = dict(entries or {})
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= {label: handle for label, handle in zip(labels, handles) if label not in found and label not in hidden}
    figure.tight_layout()
    longest = max(map(len, found), default=1) + 6
    columns = max(1, min(4, len(found), LEGEND_CHARACTERS // longest))
    figure.legend(
        list(found.values()), list(found), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, fontsize=10
    )


class Line(NamedTuple):
    """Rates of one recipe in one panel: estimates with their intervals against numbers. `kind`: what tells it from the recipe's other
    lines; `seeds`: the rate of each seed, where there are several."""

    panel: str
    name: str
    kind: str
    points: Mapping[float, Interval]
    seeds: Sequence[tuple[float, float]] = ()


def along(
    lines: Sequence[Line],
    panel_titles: Sequence[str],
    xlabel: str,
    scale: Callable[[Axes], None],
    without: Mapping[str, Mapping[str, Mapping[float, float]]],
) -> Figure:
    """Right answers along a number: a colour for every recipe, a style and marker for every kind of line, and in grey what needs no
    model (`without`, by panel). `scale`: sets the horizontal axis."""
    names = list(dict.fromkeys(one.name for one in lines))
    longest: dict[str, int] = {}
    for one in lines:
        longest[one.kind] = max(len(one.points), longest.get(one.kind, 0))
    kinds = sorted(longest, key=lambda kind: longest[kind] == 1)  # lines before single points
    figure, axes = panels(len(panel_titles))
    for panel, title in zip(axes, panel_titles):
        mine = [one for one in lines if one.panel == title]
        beside = list(
            dict.fromkeys((one.name, one.kind) for one in mine)
        )  # so that points are not drawn upon each other
        step = min(6.0, MOST_ASIDE / max(1, len(beside)))
        for one in mine:
            number, of_kind = names.index(one.name), kinds.index(one.kind)
            marker = of_kind if len(kinds) > 1 else number
            alone = len(one.points) == 1
            aside = step * (beside.index((one.name, one.kind)) - (len(beside) - 1) / 2) if alone else 0.0
            label = called(one.name, one.kind)
            line(panel, one.points, label, number, style(of_kind, 1), marker, aside)
            if one.seeds:
                place, xs, ys = moved(panel, aside), *zip(*one.seeds)
                panel.scatter(xs, ys, s=9, color=colour(number), alpha=0.6, zorder=3, transform=place)
        baselines.draw(panel, without[title])
        scale(panel)
        rates(panel)
        panel.set(xlabel=xlabel, title=title)
    axes[0].set_ylabel("right answers")
    key(figure, axes, names, kinds, [kind for kind in kinds if longest[kind] == 1])
    return figure
