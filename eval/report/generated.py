"""The report's figures, each a function from records to a Matplotlib figure, or None where the records do not hold it."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from remedy.eval.colours import COLOURS, ROLE_COLOURS
from remedy.eval.report.plotting import (
    LINES,
    MARKERS,
    legend,
    panels,
    rate_line,
    runs,
    stacked_shares,
)
from remedy.eval.report.verdicts import COST


def accuracy_by_length(records: pd.DataFrame) -> Figure | None:
    """Final-answer accuracy against the number of commands, one line per run and spacing, one panel per forcing."""
    rows = _of(records, "permutation")
    if rows.empty:
        return None
    forcings = sorted(rows["forcing"].unique())
    figure, axes = panels(len(forcings))
    names, spacings = runs(records), sorted(rows["spacing"].unique())
    keys = sorted(set(zip(rows["run"], rows["spacing"])))
    for panel, forcing in zip(axes, forcings):
        for run, spacing in keys:
            line = rows[(rows["run"] == run) & (rows["spacing"] == spacing) & (rows["forcing"] == forcing)]
            style = LINES[spacings.index(spacing) % len(LINES)]
            rate_line(panel, line, "length", f"{run}, spacing {_spacing(spacing)}", names.index(run), style)
        lengths = sorted(rows["length"].unique())
        panel.set_xscale("log", base=2)
        panel.set_xticks(lengths, [str(int(length)) for length in lengths])
        panel.set(xlabel="commands", ylim=(-0.03, 1.03), title=forcing.replace("_", "-"))
    axes[0].set_ylabel("final state right")
    legend(figure, axes[0])
    return figure


def composition(records: pd.DataFrame) -> Figure | None:
    """Accuracy by depth, nested and flattened, beside the product of the atomic accuracies of the same functions."""
    rows = _of(records, "composition")
    if rows.empty or not (rows["form"] != "atomic").any():
        return None
    groups = sorted({(run, family) for run, family in zip(rows["run"], rows["family"])})
    figure, axes = panels(len(groups))
    for panel, (run, family) in zip(axes, groups):
        mine = rows[(rows["run"] == run) & (rows["family"] == family)]
        theory = theory_line(mine)
        panel.plot(theory.index, theory.values, "k--", label="product of atomic accuracies")
        rate_line(panel, mine[mine["form"] == "atomic"], "depth", "single functions", 2)
        for number, form in enumerate(["nested", "flattened"]):
            rate_line(panel, mine[mine["form"] == form], "depth", form, number)
        panel.set(xlabel="depth", ylim=(-0.03, 1.03), title=f"{run}: {family}")
        panel.set_xticks(sorted(theory.index))
    axes[0].set_ylabel("answer right")
    legend(figure, axes[0])
    return figure


def theory_line(rows: pd.DataFrame) -> pd.Series:
    """Expected accuracy by depth if calls failed independently: the mean product of the atomic accuracies of each
    composed program's functions. Depth 1 is the mean atomic accuracy."""
    atomic = rows[rows["form"] == "atomic"].groupby("function")["final_right"].mean()
    composed = rows[rows["form"] != "atomic"]
    product = composed["functions"].map(lambda names: float(atomic.reindex(names.split()).prod(skipna=False)))
    line = product.groupby(composed["depth"]).mean()
    line.loc[1] = atomic.mean()
    return line.sort_index()


def attribution(records: pd.DataFrame) -> Figure | None:
    """Share of examples by the role of the first token that departs from the truth."""
    rows = _traced(records)
    if rows.empty:
        return None
    labels = rows["run"] + " (" + rows["forcing"].str.replace("_", "-") + ")"
    parts = rows["departure_role"].replace("", "none")
    return stacked_shares(labels, parts, ROLE_COLOURS, "share of examples, by role of the first wrong token")


def accuracy_by_tokens(records: pd.DataFrame) -> Figure | None:
    """Accuracy against the tokens of a trace, one point per run and condition."""
    rows = _traced(records)
    if rows.empty:
        return None
    rows = rows.assign(cost=rows[list(COST)].sum(axis=1))
    figure, axis = plt.subplots(figsize=(7, 4.2))
    keys = [key for key in ("length", "depth", "form", "spacing", "forcing", "family") if key in rows]
    for number, run in enumerate(runs(records)):
        mine = rows[rows["run"] == run]
        points = mine.groupby(keys, dropna=False).agg(cost=("cost", "mean"), right=("final_right", "mean"))
        points = points.sort_values("cost")
        axis.plot(points["cost"], points["right"], MARKERS[number % 8], color=COLOURS[number % 8], label=run, alpha=0.8)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.set(xlabel="tokens of the trace (without the program)", ylabel="answer right", ylim=(-0.03, 1.03))
    legend(figure, axis)
    return figure


def _traced(records: pd.DataFrame) -> pd.DataFrame:
    """Generated programs' traces, without those of single functions; real programs have figures of their own."""
    rows = records[records["diagnostic"] != "code"]
    return rows[rows["form"] != "atomic"] if "form" in rows else rows


def _of(records: pd.DataFrame, diagnostic: str) -> pd.DataFrame:
    return records[records["diagnostic"] == diagnostic]


def _spacing(spacing: float) -> str:
    return "inf" if spacing == float("inf") else str(int(spacing))
