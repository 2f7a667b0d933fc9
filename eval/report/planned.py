"""Files of an experiment that reports read: its planned runs, so that missing ones are named, and the trials behind its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from remedy.checksums import read_json, write_json

PLAN, SELECTION = "experiment.json", "selection.json"
EVALUATION = "evaluation"
"""The folder of a planned run's evaluation, in its own."""
_CURE = "run the experiment again, which writes it anew"


class Missing(NamedTuple):
    """A run, or some conditions of one, that a report should have and has not. `conditions`: their slugs; empty of a whole run."""

    run: str
    variant: str
    conditions: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.conditions)
        return f"{self.run} ({count} condition{'s' if count > 1 else ''})" if count else self.run


def named(names: Sequence[str]) -> str:
    """The first of some names, and how many more."""
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def write_plan(experiment: Path, runs: Mapping[str, Mapping[str, str]]) -> None:
    """Write the runs of an experiment into its folder: each `run` and `variant`, by its folder below.

    A run of an earlier plan stays as long as its folder does: taken out of the configuration, it would be a result left out.

    Raises:
        UserError: the plan that is there is damaged.
    """
    path = experiment / PLAN
    earlier: Mapping[str, Any] = read_json(path, _CURE)["runs"] if path.exists() else {}
    kept = {folder: run for folder, run in earlier.items() if (experiment / folder).exists()}
    if earlier != (planned := {**kept, **runs}):  # the tasks of an array all write it
        experiment.mkdir(parents=True, exist_ok=True)
        write_json(path, {"runs": planned})


def missing_runs(evaluations: Sequence[Path]) -> list[Missing]:
    """The planned runs of these evaluations' experiments of which no evaluation is among them.

    Raises:
        UserError: a plan is damaged.
    """
    here = {folder.absolute() for folder in evaluations}
    experiments = {folder.parents[2] for folder in here if len(folder.parents) > 2}  # of group and run
    return [
        Missing(run["run"], run["variant"])
        for experiment in sorted(one for one in experiments if (one / PLAN).exists())
        for folder, run in read_json(experiment / PLAN, _CURE)["runs"].items()
        if experiment / folder / EVALUATION not in here
    ]


class Tried(TypedDict):
    """One setting that a variant tried. `figures`: of each seed; null for a training whose loss became NaN or infinite."""

    values: dict[str, Any]
    figures: list[float | None]
    mean: float | None
    chosen: bool


class SelectionRecord(TypedDict):
    """The choices of a group's variants."""

    group: str
    metric: str
    seeds: list[int]
    variants: dict[str, list[Tried]]


def read_selection(folder: Path) -> SelectionRecord:
    """Read the record in a folder of trials.

    Raises:
        UserError: it is damaged.
    """
    return cast("SelectionRecord", read_json(folder / SELECTION, _CURE))
