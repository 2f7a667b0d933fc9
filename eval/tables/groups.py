"""Groups of runs of a recipe under one condition, and tables over groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from remedy.eval.records import baselines
from remedy.eval.records.schema import LabelValue, answered, with_changed
from remedy.eval.records.summary import ConditionSummary, counts
from remedy.eval.stats import Difference, RecipeRate, compare, over_seeds
from remedy.eval.stats.clusters import Floats
from remedy.eval.tables.sections import Rows, in_order, mean_of, named, points_of, telling, text, tidied, title, varying

if TYPE_CHECKING:
    import pandas as pd

PAIRED = ["example", "index", "split", "cluster"]
"""Columns that identify an example in every run."""


@dataclass(frozen=True)
class Group:
    """One condition of a recipe, with all its runs."""

    variant: str
    labels: Mapping[str, LabelValue]
    runs: list[ConditionSummary]
    records: pd.DataFrame

    @property
    def scored(self) -> bool:
        """True if answers are the model's own."""
        return self.runs[0]["right"] is not None

    @cached_property
    def rates(self) -> RecipeRate:
        """Right answers on the programs that all runs have."""
        return over_seeds(*outcomes_of(answered(self.records), "right"))

    def total(self, key: str) -> Any:
        return sum(run[key] for run in self.runs)  # type: ignore[literal-required]

    def share(self, key: str, count: str = "") -> str:
        """Write a share beside the best rule; `count`: the column of its frames."""
        cell = mean_of((run["per_frame"].get(count) if count else run[key]) for run in self.runs)  # type: ignore[literal-required]
        if cell and count == "changed_states":
            return f"{cell}\nnothing changed 0 %"
        rule = against_rule(self.records, key, count) if cell else None
        return f"{cell}\n{rule[0]} {100 * rule[1].baseline:.0f} %: {points_of(rule[1])}" if rule else cell

    def counts(self, column: str) -> dict[str, int]:
        """Count a column's values that are not empty, most frequent first."""
        return counts(self.records.loc[self.records[column] != "", column])


def outcomes_of(rows: pd.DataFrame, column: str, count: str = "") -> tuple[Floats, list[str]]:
    """Return outcomes (runs, examples) on shared examples, and their clusters.

    `count`: the column of a share's number of frames. Then each frame is an outcome, the right ones of a trace first,
    since only their number is known.
    """
    runs = list(dict.fromkeys(rows["run"]))
    # Examples that a run lacks have a NaN there.
    wide = rows.pivot(index=PAIRED, columns="run", values=column).dropna()[runs]
    right, clusters = wide.to_numpy(dtype=float).T, wide.index.get_level_values("cluster")
    if not count:
        return right, clusters.tolist()
    frames = rows.drop_duplicates(PAIRED).set_index(PAIRED)[count][wide.index].to_numpy(dtype=int)
    position = np.concatenate([np.arange(number) for number in frames])
    # A share times its count is a whole number, but for rounding.
    by_frame = position < np.repeat(np.round(right * frames), frames, axis=1)
    return by_frame.astype(float), np.repeat(clusters, frames).tolist()


def against_rule(rows: pd.DataFrame, share: str, count: str = "") -> tuple[str, Difference] | None:
    """Compare runs with the best rule without a model, if known; return its name too.

    `count`: as in `outcomes_of`.
    """
    import pandas as pd  # here, since settings are read without it

    rules = {name: outcomes for name, outcomes in baselines.outcomes(rows, share).items() if outcomes.notna().all()}
    if not rules:
        return None
    name = max(rules, key=lambda name: float(rules[name].mean()))
    # The rule becomes one more run, under a name that no run has.
    as_run = rows.assign(**{share: rules[name]}, run="").drop_duplicates(PAIRED)
    right, clusters = outcomes_of(pd.concat([rows, as_run]), share, count)
    return baselines.NAMES[name], compare(right[-1:], right[:-1], clusters, without_seeds=(True, False))


def grouped(conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Group]:
    """Group conditions of runs that differ only in seed."""
    import pandas as pd  # here, since settings are read without it

    records = with_changed(records)
    rows = dict(list(records.groupby(["run", "condition"], sort=False))) if len(records) else {}
    groups: dict[tuple[object, ...], list[ConditionSummary]] = {}
    for condition in in_order(conditions):
        groups.setdefault((condition["variant"], frozenset(condition["labels"].items())), []).append(condition)
    return [
        Group(
            runs[0]["variant"],
            runs[0]["labels"],
            runs,
            pd.concat([rows.get((run["run"], run["condition"]), records[:0]) for run in runs]),
        )
        for runs in groups.values()
    ]


def all_runs(groups: Sequence[Group]) -> list[ConditionSummary]:
    return [run for group in groups for run in group.runs]


def table(groups: Sequence[Group], columns: Mapping[str, Callable[[Group], object]]) -> Rows:
    """Make a row for each group: recipe, varying labels, columns that are not empty."""
    values = {name: [text(group.labels.get(name, "")) for group in groups] for name in varying(all_runs(groups))}
    # Of labels that are equal everywhere, one.
    labels = [name for name in values if values[name] not in [values[other] for other in values if other < name]]
    rows = [["Recipe", *map(title, labels), *columns]]
    for number, group in enumerate(groups):
        label_cells = (values[name][number] for name in labels)
        rows.append([group.variant, *label_cells, *(str(cell(group)) for cell in columns.values())])
    return tidied(rows)


def row_starts(groups: Sequence[Group]) -> list[list[str]]:
    """Return each group's recipe and the labels that tell it apart."""
    names = [*dict.fromkeys([*telling(all_runs(groups)), "forcing"])]
    return [[group.variant, named(group.labels, names)] for group in groups]
