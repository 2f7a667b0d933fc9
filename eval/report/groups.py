"""Recipes under conditions: the runs of a recipe together, and tables with a row for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from remedy.eval.records import baselines
from remedy.eval.records.schema import LabelValue, answered, with_changed
from remedy.eval.records.summary import ConditionSummary, counts
from remedy.eval.stats import Difference, RecipeRate, compare, over_seeds
from remedy.eval.stats.clusters import Floats
from remedy.eval.tables.sections import Rows, in_order, mean_of, named, points_of, telling, text, tidied, title, varying

PAIRED = ["example", "index", "split", "cluster"]
"""The columns that name one example in every run."""


@dataclass(frozen=True)
class Group:
    """One condition of a recipe: the summaries of its runs, and their records."""

    variant: str
    labels: Mapping[str, LabelValue]
    runs: list[ConditionSummary]
    records: pd.DataFrame

    @property
    def scored(self) -> bool:
        """Say if its answers are the model's, to be right or wrong."""
        return self.runs[0]["right"] is not None

    @cached_property
    def rates(self) -> RecipeRate:
        """The runs' rates of right answers on the programs that all of them have."""
        return over_seeds(*outcomes_of(answered(self.records), "right"))

    def total(self, key: str) -> Any:
        """The sum of a number of all runs."""
        return sum(run[key] for run in self.runs)  # type: ignore[literal-required]

    def share(self, key: str, count: str = "") -> str:
        """A share of the runs as a cell, with the best rule without a model. `count`: of a share by frame, the frames' number."""
        said = mean_of((run["per_frame"].get(count) if count else run[key]) for run in self.runs)  # type: ignore[literal-required]
        if said and count == "changed_states":
            return f"{said}\nnothing changed 0 %"
        found = against_rule(self.records, key, count) if said else None
        return f"{said}\n{found[0]} {100 * found[1].baseline:.0f} %: {points_of(found[1])}" if found else said

    def counts(self, column: str) -> dict[str, int]:
        """Count each value of a column, the most frequent first, but for empty ones."""
        return counts(self.records.loc[self.records[column] != "", column])


def outcomes_of(rows: pd.DataFrame, column: str, count: str = "") -> tuple[Floats, list[str]]:
    """Right ones of runs (runs, examples), in the order of `rows`, on the examples that all of them have; and the examples' clusters.

    `count`: of a share of frames, the column with their number. Then every frame of a trace is an example, all of a program in its
    cluster: a trace's right ones are counted first, since only their number is known.
    """
    runs = list(dict.fromkeys(rows["run"]))
    wide = rows.pivot(index=PAIRED, columns="run", values=column).dropna()[runs]
    right, clusters = wide.to_numpy(dtype=float).T, wide.index.get_level_values("cluster")
    if not count:
        return right, clusters.tolist()
    of = rows.drop_duplicates(PAIRED).set_index(PAIRED)[count][wide.index].to_numpy(dtype=int)
    place = np.concatenate([np.arange(number) for number in of])
    return (place < np.repeat(np.round(right * of), of, axis=1)).astype(float), np.repeat(clusters, of).tolist()


def against_rule(rows: pd.DataFrame, share: str, count: str = "") -> tuple[str, Difference] | None:
    """The name of the best rule without a model for a share of runs' records, and the runs less that rule on the examples that all of
    them have; None where no rule is known. `count`: as of `outcomes_of`."""
    rules = {name: each for name, each in baselines.outcomes(rows, share).items() if each.notna().all()}
    if not rules:
        return None
    name = max(rules, key=lambda name: float(rules[name].mean()))
    rule = rows.assign(**{share: rules[name]}, run="").drop_duplicates(PAIRED)
    right, clusters = outcomes_of(pd.concat([rows, rule]), share, count)
    return baselines.NAMES[name], compare(right[-1:], right[:-1], clusters, standing=(True, False))


def grouped(conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Group]:
    """The conditions of runs that differ in their seeds alone, together."""
    records = with_changed(records)
    rows = dict(list(records.groupby(["run", "condition"], sort=False))) if len(records) else {}
    found: dict[tuple[object, ...], list[ConditionSummary]] = {}
    for one in in_order(conditions):
        found.setdefault((one["variant"], frozenset(one["labels"].items())), []).append(one)
    return [
        Group(
            runs[0]["variant"],
            runs[0]["labels"],
            runs,
            pd.concat([rows.get((one["run"], one["condition"]), records[:0]) for one in runs]),
        )
        for runs in found.values()
    ]


def all_runs(groups: Sequence[Group]) -> list[ConditionSummary]:
    """The conditions of all runs of groups."""
    return [run for group in groups for run in group.runs]


def table(groups: Sequence[Group], columns: Mapping[str, Callable[[Group], object]]) -> Rows:
    """A row for every group: its recipe, the labels that vary (of two that are always equal, one), and columns; those that say nothing
    are left out."""
    values = {name: [text(group.labels.get(name, "")) for group in groups] for name in varying(all_runs(groups))}
    labels = [name for name in values if values[name] not in [values[other] for other in values if other < name]]
    rows = [["Recipe", *map(title, labels), *columns]]
    for group in groups:
        about = [text(group.labels.get(name, "")) for name in labels]
        rows.append([group.variant, *about, *(str(cell(group)) for cell in columns.values())])
    return tidied(rows)


def starts(groups: Sequence[Group]) -> list[list[str]]:
    """Each group's recipe and the labels that tell it from others, as two cells."""
    about = [*dict.fromkeys([*telling(all_runs(groups)), "forcing"])]
    return [[group.variant, named(group.labels, about)] for group in groups]
