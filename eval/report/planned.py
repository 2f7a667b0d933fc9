"""Files of an experiment that reports read: runs, plan and trials of settings.

Reading a damaged file raises a UserError.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from remedy.checksums import read_json, write_json
from remedy.eval.report.comparison import Comparison
from remedy.messages import plural

RUNS, PLAN, SELECTION = "experiment.json", "plan.json", "selection.json"
EVALUATION = "evaluation"
"""The folder of a run's evaluation, inside the run's own."""
_CURE = "run the experiment again, which writes it anew"
_LOST = "put it back as it was before the runs, or delete it: then reports know no plan"
_CHOSEN = ("asks", "solved_at", "margin", "primary")
"""Settings of a comparison that decide its word."""
log = logging.getLogger(__name__)


class MissingRun(NamedTuple):
    """A run without some conditions (slugs), or without any evaluation."""

    run: str
    variant: str
    conditions: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.conditions)
        return f"{self.run} ({plural(count, 'condition')})" if count else self.run


def first_names(names: Sequence[str]) -> str:
    """Write the first three names and the number of others."""
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def write_plan(experiment: Path, comparisons: Sequence[Comparison], seeds: Mapping[str, int]) -> None:
    """Write an experiment's comparisons and seeds, unless a plan exists."""
    plan = {"comparisons": [comparison.model_dump(mode="json") for comparison in comparisons], "seeds": {**seeds}}
    if not (path := experiment / PLAN).exists():
        write_json(path, {"time": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), **plan})
    elif (earlier := read_json(path, _LOST)) != {**earlier, **plan}:
        log.warning("%s: others were planned on %s, and reports say what departs from them", path, earlier["time"])


def read_plans(evaluations: Sequence[Path]) -> list[dict[str, Any]]:
    return [read_json(experiment / PLAN, _LOST) for experiment in _experiments(evaluations, PLAN)]


def departures(
    plans: Sequence[Mapping[str, Any]],
    comparison: Comparison,
    seeds: Mapping[str, int | None],
    others: Sequence[Comparison],
) -> str:
    """Say how a comparison departs from its plan, if at all.

    `others`: all comparisons of its report.
    """
    actual, *all_here = (each.model_dump(mode="json") for each in (comparison, *others))
    planned = [each for plan in plans for each in plan["comparisons"]]
    planned_seeds = {run: seed for plan in plans for run, seed in plan["seeds"].items()}
    as_planned: Mapping[str, Any] = next((each for each in planned if _sides(each) == _sides(actual)), {})
    if not as_planned and not seeds.keys() & planned_seeds.keys():
        return ""
    changes = ["this comparison was not planned"]
    if as_planned:
        differing = [key for key in _CHOSEN if actual[key] != as_planned[key]]
        changes = [f"{key} {actual[key]}, planned {as_planned[key]}" for key in differing]
    if added := [
        run for run, seed in seeds.items() if run not in planned_seeds or seed not in (None, planned_seeds[run])
    ]:
        changes.append(f"{len(added)} runs with seeds that were not planned: {first_names(added)}")
    if left_out := sum(_sides(each) not in map(_sides, all_here) for each in planned):
        changes.append(f"{left_out} of the planned comparisons left out")
    return f"not as planned on {' and '.join(plan['time'] for plan in plans)}: {', '.join(changes)}" if changes else ""


def _sides(comparison: Mapping[str, Any]) -> tuple[object, ...]:
    return comparison["baseline"], comparison["treatment"], comparison["metric"]


def _experiments(evaluations: Sequence[Path], file: str) -> list[Path]:
    """List the experiments of evaluations that have a file."""
    # An evaluation lies in EXPERIMENT/GROUP/RUN/.
    folders = {folder.absolute().parents[2] for folder in evaluations if len(folder.absolute().parents) > 2}
    return sorted(folder for folder in folders if (folder / file).exists())


def write_runs(experiment: Path, runs: Mapping[str, Mapping[str, str]]) -> None:
    """Write `run` and `variant` of an experiment's runs, by folder."""
    path = experiment / RUNS
    earlier: Mapping[str, Any] = read_json(path, _CURE)["runs"] if path.exists() else {}
    # Without earlier runs, a result could be left out unseen.
    existing = {folder: run for folder, run in earlier.items() if (experiment / folder).exists()}
    if earlier != (planned := {**existing, **runs}):  # the tasks of an array all write it
        experiment.mkdir(parents=True, exist_ok=True)
        write_json(path, {"runs": planned})


def missing_runs(evaluations: Sequence[Path]) -> list[MissingRun]:
    """List planned runs of these evaluations' experiments that are not evaluated."""
    evaluated = {folder.absolute() for folder in evaluations}
    return [
        MissingRun(run["run"], run["variant"])
        for experiment in _experiments(evaluations, RUNS)
        for folder, run in read_json(experiment / RUNS, _CURE)["runs"].items()
        if experiment / folder / EVALUATION not in evaluated
    ]


class Trial(TypedDict):
    """A trial of settings; `figures`: by seed, null if training diverged."""

    values: dict[str, Any]
    figures: list[float | None]
    mean: float | None
    chosen: bool


class SelectionRecord(TypedDict):
    """Trials of a group's variants."""

    group: str
    metric: str
    seeds: list[int]
    variants: dict[str, list[Trial]]


def read_selection(folder: Path) -> SelectionRecord:
    return cast("SelectionRecord", read_json(folder / SELECTION, _CURE))
