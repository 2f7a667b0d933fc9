"""Files of an experiment that reports read: its runs, its plan, and the trials behind its settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from remedy.checksums import read_json, write_json
from remedy.eval.report.comparison import Comparison

RUNS, PLAN, SELECTION = "experiment.json", "plan.json", "selection.json"
EVALUATION = "evaluation"
"""The folder of a planned run's evaluation, in its own."""
_CURE = "run the experiment again, which writes it anew"
_LOST = "put it back as it was before the runs, or delete it: then reports know no plan"
_CHOSEN = ("asks", "solved_at", "margin", "primary")
"""Settings of a comparison that decide its word."""
log = logging.getLogger(__name__)


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


def write_plan(experiment: Path, comparisons: Sequence[Comparison], seeds: Mapping[str, int]) -> None:
    """Write down what an experiment compares, and the seed of each run, before its runs. A plan that is there stays, and another one is
    said to be another.

    Raises:
        UserError: the plan that is there is damaged.
    """
    plan = {"comparisons": [one.model_dump(mode="json") for one in comparisons], "seeds": {**seeds}}
    if not (path := experiment / PLAN).exists():
        write_json(path, {"time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **plan})
    elif (earlier := read_json(path, _LOST)) != {**earlier, **plan}:
        log.warning("%s: others were planned on %s, and reports say what departs from them", path, earlier["time"])


def read_plans(evaluations: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the plans of these evaluations' experiments, of those that have one.

    Raises:
        UserError: a plan is damaged.
    """
    return [read_json(one / PLAN, _LOST) for one in _experiments(evaluations) if (one / PLAN).exists()]


def departures(
    plans: Sequence[Mapping[str, Any]],
    comparison: Comparison,
    seeds: Mapping[str, int | None],
    others: Sequence[Comparison],
) -> str:
    """Say how a comparison departs from what was planned; empty if it does not, or nothing in it was planned. `seeds`: of its runs;
    `others`: all comparisons of its report."""
    mine, *here = (one.model_dump(mode="json") for one in (comparison, *others))
    planned = [one for plan in plans for one in plan["comparisons"]]
    known = {run: seed for plan in plans for run, seed in plan["seeds"].items()}
    same: Mapping[str, Any] = next((one for one in planned if _sides(one) == _sides(mine)), {})
    if not same and not seeds.keys() & known.keys():
        return ""
    found = [f"{key} {mine[key]}, planned {same[key]}" for key in _CHOSEN if same and mine[key] != same[key]]
    found += [] if same else ["this comparison was not planned"]
    if more := [run for run, seed in seeds.items() if run not in known or seed not in (None, known[run])]:
        found.append(f"{len(more)} runs with seeds that were not planned: {named(more)}")
    if left := sum(_sides(one) not in map(_sides, here) for one in planned):
        found.append(f"{left} of the planned comparisons left out")
    return f"not as planned on {' and '.join(plan['time'] for plan in plans)}: {', '.join(found)}" if found else ""


def _sides(comparison: Mapping[str, Any]) -> tuple[object, ...]:
    return comparison["baseline"], comparison["treatment"], comparison["metric"]


def _experiments(evaluations: Sequence[Path]) -> list[Path]:
    """The folders of the experiments that evaluations belong to: each lies in one of a run, of a group."""
    return sorted({folder.absolute().parents[2] for folder in evaluations if len(folder.absolute().parents) > 2})


def write_runs(experiment: Path, runs: Mapping[str, Mapping[str, str]]) -> None:
    """Write the runs of an experiment into its folder: each `run` and `variant`, by its folder below.

    An earlier run stays as long as its folder does: taken out of the configuration, it would be a result left out.

    Raises:
        UserError: the file that is there is damaged.
    """
    path = experiment / RUNS
    earlier: Mapping[str, Any] = read_json(path, _CURE)["runs"] if path.exists() else {}
    kept = {folder: run for folder, run in earlier.items() if (experiment / folder).exists()}
    if earlier != (planned := {**kept, **runs}):  # the tasks of an array all write it
        experiment.mkdir(parents=True, exist_ok=True)
        write_json(path, {"runs": planned})


def missing_runs(evaluations: Sequence[Path]) -> list[Missing]:
    """The planned runs of these evaluations' experiments of which no evaluation is among them.

    Raises:
        UserError: the file of an experiment's runs is damaged.
    """
    here = {folder.absolute() for folder in evaluations}
    return [
        Missing(run["run"], run["variant"])
        for experiment in _experiments(evaluations)
        if (experiment / RUNS).exists()
        for folder, run in read_json(experiment / RUNS, _CURE)["runs"].items()
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
