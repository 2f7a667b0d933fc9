"""Runs that differ in nothing but their seeds, together: their mean with its interval, each run's rate, and how many solve the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from remedy.eval.records import baselines
from remedy.eval.records.remarks import remarks
from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.along import Drawn, figure_along
from remedy.eval.report.verdicts import PAIRED
from remedy.eval.stats import BAR, Repeated, over_seeds
from remedy.eval.tables.sections import (
    WITHOUT,
    Line,
    Rows,
    Section,
    constant,
    in_order,
    interval,
    places,
    text,
    title,
    varying,
)

NOTE = (
    "Mean over the runs of a variant and the programs that all of them have, with a 95 % interval for other seeds and other programs, "
    "which takes seeds' rates to vary normally; of one run, for other programs alone. Where trainings solve a task or fail, read how "
    f"many do: runs whose rate reaches {BAR:.0%} with the lower end of their own interval, and the share of all trainings that would "
    "(Clopper-Pearson). Tokens: the trace's."
)


DRAWN = (
    "Large: means over the seeds of a variant, with 95 % intervals; small: each seed. What has one value of the axis by itself stands "
    "side by side."
)


def repeated(variants: Mapping[str, str]) -> bool:
    """Whether some variant has several runs. `variants`: each run's variant."""
    return len(set(variants.values())) < len(variants)


class Cell(NamedTuple):
    """One variant under one condition."""

    found: Repeated
    tokens: float


def seed_sections(
    name: str,
    axis: str | None,
    conditions: Sequence[ConditionSummary],
    records: pd.DataFrame,
    variants: Mapping[str, str],
) -> list[Section]:
    """A table over variants, and a figure along the axis where the diagnostic has one; nothing where no variant has several runs."""
    mine = [condition for condition in conditions if condition["right"] is not None]
    if not mine or not repeated({condition["run"]: variants[condition["run"]] for condition in mine}):
        return []
    sections = [Section(f"{name}: right answers over seeds", rows=seed_table(mine, records, variants), note=NOTE)]
    if axis is not None:
        draw = partial(accuracy_over_seeds, mine, records, axis, variants)
        sections.insert(
            0,
            Section(
                f"{name}: right answers by {axis}, over seeds", draw=draw, note=f"{DRAWN} {constant(mine)}".strip()
            ),
        )
    return sections


def cells(
    conditions: Sequence[ConditionSummary], records: pd.DataFrame, names: Sequence[str], variants: Mapping[str, str]
) -> dict[tuple[str, ...], Cell]:
    """Each variant under each value of the labels `names`, in the order of variants, then of labels."""
    found: dict[tuple[str, ...], list[ConditionSummary]] = {}
    for condition in in_order(conditions):
        labels = condition["labels"]
        key = (variants[condition["run"]], *(text(labels.get(name, "")) for name in names))
        found.setdefault(key, []).append(condition)
    rows = dict(list(records.groupby(["run", "condition"], sort=False)))
    return {
        key: _cell([rows[condition["run"], condition["condition"]] for condition in group])
        for key, group in found.items()
    }


def _cell(runs: Sequence[pd.DataFrame]) -> Cell:
    rows = pd.concat([run.assign(place=place) for place, run in enumerate(runs)])
    counts = rows.groupby(PAIRED).size()
    shared = rows.set_index(PAIRED).loc[counts[counts == len(runs)].index].reset_index().sort_values(["place", *PAIRED])
    outcomes = shared["right"].to_numpy(dtype=float).reshape(len(runs), -1)
    tokens = float(rows[TRACE_COLUMNS].sum(axis=1).mean())
    return Cell(over_seeds(outcomes, shared["cluster"].tolist()[: outcomes.shape[1]]), tokens)


def seed_table(conditions: Sequence[ConditionSummary], records: pd.DataFrame, variants: Mapping[str, str]) -> Rows:
    """One line per variant and condition."""
    labels = varying(conditions)
    head = [
        "Variant",
        *map(title, labels),
        "Seeds",
        "Right",
        "Each seed",
        "Standard deviation",
        "Solved",
        WITHOUT,
        "Tokens",
    ]
    table = [head]
    groups: dict[tuple[str, ...], list[ConditionSummary]] = {}
    for condition in conditions:
        at = tuple(text(condition["labels"].get(name, "")) for name in labels)
        groups.setdefault((variants[condition["run"]], *at), []).append(condition)
    without = {key: baselines.best(group) for key, group in groups.items()}
    for key, (found, tokens) in cells(conditions, records, labels, variants).items():
        low, high = found.estimate.low, found.estimate.high
        said = remarks(groups[key], found.estimate[:3]) if key in groups else []
        mean = "\n".join([f"{100 * found.estimate.mean:.{places(low, high)}f} %", interval(low, high), *said])
        spread = f"{100 * found.spread:.0f} points" if len(found.points) > 1 else ""
        table.append(
            [
                *key,
                str(len(found.points)),
                mean,
                each_seed(found),
                spread,
                solved(found).removeprefix("solved ").replace(", ", "\n"),
                without.get(key, ""),
                f"{tokens:.0f}",
            ]
        )
    return table


def each_seed(found: Repeated) -> str:
    """The rate of each run: `70, 82, 57, 18 %`."""
    return ", ".join(f"{100 * point:.0f}" for point in found.points) + " %"


def solved(found: Repeated) -> str:
    """How many runs solve the task, and the share of all trainings that would: `solved 3 of 4, 19 to 99 %`."""
    at = "" if found.solved_at == BAR else f" ({100 * found.solved_at:.0f} %)"
    if not found.reachable:
        return f"solved{at} not to be told, on so few programs"
    return f"solved{at} {found.solved} of {len(found.points)}, {interval(*found.share)}"


def accuracy_over_seeds(
    conditions: Sequence[ConditionSummary], records: pd.DataFrame, axis: str, variants: Mapping[str, str]
) -> Figure:
    """Mean share of right answers over the runs of a variant against a label, with its interval, and each run's as a dot."""

    def drawn(group: Sequence[Line]) -> list[Drawn]:
        conditions = [condition for line in group for condition in line.conditions]
        found = {float(at): cell.found for (_, at), cell in cells(conditions, records, [axis], variants).items()}
        dots = [(at, rate) for at, one in found.items() for rate in one.points]
        return [Drawn({at: one.estimate[:3] for at, one in found.items()}, dots)]

    return figure_along(conditions, axis, variants, drawn, "answers right, mean over seeds")
