"""Runs that differ in nothing but their seed, together: mean over runs with its interval, which says how far a result repeats."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from remedy.eval.report.plotting import COLOURS, LINES, MARKERS, legend, panels
from remedy.eval.report.sections import Section
from remedy.eval.report.verdicts import CONDITION_KEYS, COST
from remedy.eval.stats import Rate, mean

NOTE = (
    "One value per run: its share of right answers. Mean over the runs of a variant, with a 95 % t interval between runs, cut to 0 "
    "and 100 %; one run alone says nothing of that. Tokens: the trace's."
)


def seed_sections(records: pd.DataFrame, variants: Mapping[str, str]) -> list[Section]:
    """A table and a figure over variants; nothing where no variant has two runs. `variants`: each run's variant."""
    names = [variants[run] for run in dict.fromkeys(records["run"]) if run in variants]
    if len(set(names)) == len(names):
        return []
    rows = records[records["run"].isin(list(variants))].assign(variant=lambda r: r["run"].map(variants))
    sections = [Section("Over seeds: right answers", rows=over_seeds(rows), note=NOTE)]
    lengths = rows[rows["diagnostic"] == "permutation"]
    if not lengths.empty:
        sections.insert(0, Section("Over seeds: accuracy by length", figure=accuracy_over_seeds, data=lengths))
    return sections


def over_seeds(rows: pd.DataFrame) -> list[list[str]]:
    """One line per condition and variant."""
    labels = [k for k in CONDITION_KEYS if k in rows and rows[k].nunique(dropna=False) > 1]
    table = [["Variant", *(label.capitalize() for label in labels), "Runs", "Right", "95 % interval", "Tokens"]]
    for keys, group in rows.groupby(["variant", *labels], dropna=False, sort=True):
        result = _between_runs(group)
        interval = f"{result.low:.1%} to {result.high:.1%}" if result.examples > 1 else "one run"
        cells = ["" if pd.isna(key) else f"{key:g}" if isinstance(key, float) else str(key) for key in keys]
        tokens = group[list(COST)].sum(axis=1).mean()
        table.append([*cells, str(result.examples), f"{result.mean:.1%}", interval, f"{tokens:.0f}"])
    return table


def accuracy_over_seeds(rows: pd.DataFrame) -> Figure:
    """Mean accuracy over the runs of a variant against the number of commands, with the interval between runs."""
    forcings = sorted(rows["forcing"].unique())
    variants = list(dict.fromkeys(rows["variant"]))
    figure, axes = panels(len(forcings))
    for panel, forcing in zip(axes, forcings):
        for number, variant in enumerate(variants):
            line = rows[(rows["variant"] == variant) & (rows["forcing"] == forcing)]
            points = [(length, _between_runs(group)) for length, group in line.groupby("length")]
            xs = [length for length, _ in points]
            colour, style = COLOURS[number % len(COLOURS)], LINES[number // len(COLOURS) % len(LINES)]
            centre = [r.mean for _, r in points]
            panel.plot(xs, centre, style, marker=MARKERS[number % 8], color=colour, label=variant)
            if any(r.examples > 1 for _, r in points):
                low, high = [r.low for _, r in points], [r.high for _, r in points]
                panel.fill_between(xs, low, high, color=colour, alpha=0.13, lw=0)
        lengths = sorted(rows["length"].unique())
        panel.set_xscale("log", base=2)
        panel.set_xticks(lengths, [str(int(length)) for length in lengths])
        panel.set(xlabel="commands", ylim=(-0.03, 1.03), title=str(forcing).replace("_", "-"))
    axes[0].set_ylabel("final state right, mean over seeds")
    legend(figure, axes[0])
    return figure


def _between_runs(rows: pd.DataFrame) -> Rate:
    return mean(rows.groupby("run")["final_right"].mean().tolist())
