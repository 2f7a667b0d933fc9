"""Figures of right answers along an axis: a panel for every forcing, a colour for every variant, a style for every kind of line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from remedy.eval.records import baselines
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS
from remedy.eval.tables.sections import Line, in_order, lines, telling


class Drawn(NamedTuple):
    """What is drawn for one line: rates with their intervals by a value of the axis, and dots, (value, rate)."""

    points: Mapping[float, plotting.Interval]
    dots: Sequence[tuple[float, float]] = ()


def figure_along(
    conditions: Sequence[ConditionSummary],
    axis: str,
    variants: Mapping[str, str],
    drawn: Callable[[Sequence[Line]], Sequence[Drawn]],
    ylabel: str,
) -> Figure:
    """A figure of rates against the label `axis`. `variants`: of every run; `drawn`: what is drawn for the lines of one kind and
    forcing of a variant's runs. Lines of one point stand beside each other."""
    ordered = in_order(conditions)
    found: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines(ordered, [*telling(ordered), "forcing"], axis):
        found.setdefault((variants[line.run], line.kind, str(line.labels["forcing"])), []).append(line)
    size = {kind: 0 for _, kind, _ in found}
    for (_, kind, _), group in found.items():
        size[kind] = max(size[kind], *(len(line.conditions) for line in group))
    names, kinds = list(dict.fromkeys(name for name, _, _ in found)), sorted(size, key=lambda kind: size[kind] == 1)
    alone = [kind for kind in kinds if size[kind] == 1]
    asides = plotting.asides([(name, kind) for kind in alone for name in names])
    forcings = list(dict.fromkeys(str(condition["labels"]["forcing"]) for condition in ordered))
    figure, axes = plotting.panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        mine = [condition for condition in ordered if condition["labels"]["forcing"] == forcing]
        baselines.draw(panel, baselines.along(mine, axis))
        for (name, kind, of), group in found.items():
            number, marker = names.index(name), kinds.index(kind) if len(kinds) > 1 else names.index(name)
            style = plotting.LINES[kinds.index(kind) % len(plotting.LINES)]
            aside = asides.get((name, kind), 0.0)
            for points, dots in drawn(group) if of == forcing else ():
                plotting.line(panel, points, plotting.called(name, kind), number, style, marker, aside)
                moved, colour = plotting.moved(panel, aside), COLOURS[number % len(COLOURS)]
                if dots:
                    xs, ys = zip(*dots)
                    panel.scatter(xs, ys, s=9, color=colour, alpha=0.6, zorder=3, transform=moved)
        plotting.numbers(panel, [float(condition["labels"][axis]) for condition in ordered])
        plotting.rates(panel)
        if asides:
            panel.margins(x=0.2)
        panel.set(xlabel=axis, title=forcing)
    axes[0].set_ylabel(ylabel)
    plotting.key(figure, axes, names, kinds, alone)
    return figure
