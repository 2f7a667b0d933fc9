"""`remedy run --plan`: what an experiment will run, and what its comparisons can see. Nothing is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from rich.console import Console
from rich.table import Table

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.diagnostics import Condition
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.defaults import default_comparisons
from remedy.eval.report.verdicts import ALONE
from remedy.eval.stats.power import CORRELATION, RATE, SPREAD, decidable, seeds_for_fixed
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job, conditions, expand, trials
from remedy.launch.train import given_programs
from remedy.models.config import DecoderSettings

Variants = Mapping[str, list[Job]]


class Compared(NamedTuple):
    """One side of a comparison: its runs, and its condition, None where it fits none."""

    jobs: list[Job]
    condition: Condition | None

    @property
    def seeds(self) -> float:
        """Count the seeds, as `smallest_difference` does: infinite of a model that is not trained."""
        kept = not any(job.train.train.total_steps or isinstance(job.train.model, DecoderSettings) for job in self.jobs)
        return math.inf if kept else len(self.jobs)


def print_plan(
    config: ExperimentConfig,
    where: str,
    rate: float | None = None,
    spread: float | None = None,
    console: Console | None = None,
) -> None:
    """Print the plan of an experiment. `rate`: the baseline's rate that is assumed; `spread`: the standard deviation of seeds.

    Raises:
        UserError: as `expand`, or a diagnostic does not fit its data.
    """
    console = console or Console()
    rate, spread = RATE if rate is None else rate, SPREAD if spread is None else spread
    jobs = expand(config, where)
    check_programs(jobs)
    variants = _by_variant(jobs)
    asked = {name: conditions(jobs[0]) for name, jobs in variants.items()}
    _print_runs(config, variants, asked, _by_variant(trials(config, where)), console)
    _print_conditions(asked, console)
    _print_comparisons(config, variants, asked, rate, spread, console)


def check_programs(jobs: Sequence[Job]) -> None:
    """Say of given programs how many each split has, before anything of what is still to be trained begins.

    Raises:
        ConfigError: training, validation or a diagnostic has none, or a diagnostic does not fit its data.
    """
    said: dict[str, None] = {}
    for job in jobs:
        if not job.is_trained:
            said |= dict.fromkeys(given_programs(job.train))
            conditions(job)
    for line in said:
        print(line, flush=True)


def comparisons_of(config: ExperimentConfig, jobs: Sequence[Job]) -> Sequence[Comparison]:
    """The comparisons that the report on an experiment will make.

    Raises:
        ConfigError: a diagnostic does not fit its data.
    """
    planned = [
        {
            "run": job.name,
            "variant": job.variant,
            "diagnostic": one.diagnostic,
            "labels": one.labels,
            "right": one.examples,
        }
        for mine in _by_variant(jobs).values()
        for one in conditions(mine[0])
        for job in mine
    ]
    return config.comparisons or default_comparisons(cast(list[ConditionSummary], planned), config.baselines)


def _by_variant(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    variants: dict[str, list[Job]] = {}
    for job in jobs:
        variants.setdefault(job.variant, []).append(job)
    return variants


def _print_runs(
    config: ExperimentConfig,
    variants: Variants,
    asked: Mapping[str, list[Condition]],
    tried: Variants,
    console: Console,
) -> None:
    table = Table("variant", "runs", "steps", "rows", "evaluated on", title="Runs")
    planned = [
        (f"{name}: selection", jobs, f"validation, {jobs[0].train.train.validation_examples:,}")
        for name, jobs in tried.items()
    ]
    planned += [(name, jobs, f"{sum(one.examples for one in asked[name]):,}") for name, jobs in variants.items()]
    for name, jobs, evaluated in planned:
        train = jobs[0].train.train
        rows = train.total_steps * train.batch_size
        table.add_row(name, str(len(jobs)), f"{train.total_steps:,}", f"{rows:,}", evaluated)
    console.print(table)
    if tried:
        console.print(f"{sum(map(len, tried.values()))} trials choose settings on validation before the runs.")
    runs = sum(map(len, variants.values()))
    console.print(f"{runs} runs of {len(variants)} variants, {config.workers} at a time.\n")


def _print_conditions(asked: Mapping[str, list[Condition]], console: Console) -> None:
    table = Table("condition", "examples", "variants", title="Examples by condition")
    found: dict[tuple[str, int], set[str]] = {}
    for name, mine in asked.items():
        for one in mine:
            words = [f"{key} {value}" for key, value in one.own_labels.items() if value != ""]
            how = "answer only" if one.labels["answer_only"] else f"forcing {one.labels['forcing']}"
            found.setdefault((", ".join([one.diagnostic, *words, how]), one.examples), set()).add(name)
    for (label, examples), names in found.items():
        table.add_row(label, str(examples), str(len(names)))
    console.print(table)


def _print_comparisons(
    config: ExperimentConfig,
    variants: Variants,
    asked: Mapping[str, list[Condition]],
    rate: float,
    spread: float,
    console: Console,
) -> None:
    comparisons = comparisons_of(config, [job for mine in variants.values() for job in mine])
    # Sides that are fed different roles, as far as they say what they are fed, are a diagnosis.
    fed = [{fed_as(str(side.where.get("forcing"))) for side in (one.baseline, one.treatment)} for one in comparisons]
    judged = [one for one, forcings in zip(comparisons, fed) if len(forcings) == 1]
    others = sum(not one.primary for one in judged)
    table = Table("compared", "seeds", "examples", "alone", f"of {others}", title="What can be decided (power 80 %)")
    for one in judged:
        sides = [_compared(side, variants, asked) for side in (one.baseline, one.treatment)]
        seeds = f"{len(sides[1].jobs)} to {len(sides[0].jobs)}"
        found = [side.condition for side in sides if side.condition is not None]
        if len(found) < len(sides):
            table.add_row(one.mitigation, seeds, "no such condition", "", "")
            continue
        examples = min(condition.examples for condition in found)
        clusters = min(condition.data.task.clusters(condition.split, condition.examples) for condition in found)
        assumed = sides[0].seeds, sides[1].seeds
        matched = one.baseline.run == one.treatment.run or math.inf in assumed
        alone, worst = (
            decidable(one.asks, one.solved_at, assumed, matched, clusters, level, rate, spread)
            for level in (ALONE, ALONE if one.primary else ALONE / others)
        )
        size = str(examples) if clusters == examples else f"{examples}, {clusters} independent"
        table.add_row(one.mitigation, seeds, size, alone, worst)
    console.print(table)
    if left := len(comparisons) - len(judged):
        console.print(f"Fed different roles on their two sides, so diagnoses without a verdict: {left} more.")
    console.print(
        f"Assumed: baseline {rate:.0%} right (--rate), seeds {100 * spread:.0f} points apart (--spread, standard deviation; measured "
        f"9 to 28 for one recipe), outcomes on a program correlated by {CORRELATION:g}; all executions of one function succeed or "
        "fail together. The last column corrects for all comparisons (Holm, at worst). With one seed a side, a verdict is about these "
        "runs only; below five, it compares how many trainings solve the task. "
        f"Fixed takes {seeds_for_fixed()} seeds that all solve it."
    )


def _compared(side: Side, variants: Variants, asked: Mapping[str, list[Condition]]) -> Compared:
    jobs = variants.get(side.run) or [job for mine in variants.values() for job in mine if job.name == side.run]
    for one in asked[jobs[0].variant]:
        labels = {"diagnostic": one.diagnostic, **one.labels}
        if all(labels.get(key) == value for key, value in side.where.items()):
            return Compared(jobs, one)
    return Compared(jobs, None)
