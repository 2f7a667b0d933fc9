"""`remedy run --plan`: what an experiment will run, what that costs, and what its comparisons can see. Nothing is trained."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from rich.console import Console
from rich.table import Table

from remedy.eval.decoding.forcings import fed_as
from remedy.eval.diagnostics import Condition
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.defaults import default_comparisons
from remedy.eval.report.evidence import decidable, seeds_for_fixed
from remedy.eval.report.verdicts import ALONE
from remedy.eval.stats.power import CORRELATION, RATE, SPREAD
from remedy.launch.experiment import ExperimentConfig, Job, TrainingJob, Trial, expand, trials
from remedy.launch.experiment import conditions as conditions_of_job
from remedy.models.config import DecoderSettings
from remedy.models.flops import training_flops
from remedy.models.tokenizer import build_tokenizer
from remedy.speed import duration
from remedy.train.data import parted
from remedy.train.footprint import drawn_rows
from remedy.train.run import build_model
from remedy.train.tracking import METRICS, last_record

UTILISATION = 0.2
"""Share of the speed of a matrix product that small models reach in training; benchmarks/RESULTS.md."""


class Cost(NamedTuple):
    """Seconds that training a variant's run takes, and where they are from; NaN where nothing is known."""

    seconds: float
    source: str


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
    variants: dict[str, list[Job]] = {}
    for job in jobs:
        variants.setdefault(job.variant, []).append(job)
    conditions = {job.name: conditions_of_job(job) for job in jobs}
    _print_runs(config, variants, conditions, trials(config, where), console)
    _print_conditions(variants, conditions, console)
    _print_comparisons(config, variants, conditions, rate, spread, console)


def _print_runs(
    config: ExperimentConfig,
    variants: dict[str, list[Job]],
    conditions: dict[str, list[Condition]],
    tried: list[Trial],
    console: Console,
) -> None:
    table = Table("variant", "runs", "steps", "rows", "one run", "from", "evaluated on", title="Runs")
    total, unknown = 0.0, 0
    selections: dict[str, list[Trial]] = {}
    for trial in tried:
        selections.setdefault(trial.variant, []).append(trial)
    planned: list[tuple[str, Sequence[TrainingJob], str]] = [
        (f"{name}: selection", mine, f"validation, {mine[0].train.train.validation_examples:,}")
        for name, mine in selections.items()
    ]
    for name, jobs in variants.items():
        planned.append((name, jobs, f"{sum(one.examples for one in conditions[jobs[0].name]):,}"))
    for name, mine, evaluated in planned:
        cost, train = training_cost(mine), mine[0].train.train
        known = not math.isnan(cost.seconds)
        total += cost.seconds * len(mine) if known else 0.0
        unknown += 0 if known else len(mine)
        rows = train.total_steps * train.batch_size
        shown = duration(cost.seconds) if known and cost.seconds else "" if known else "?"
        table.add_row(name, str(len(mine)), f"{train.total_steps:,}", f"{rows:,}", shown, cost.source, evaluated)
    console.print(table)
    if tried:
        console.print(f"{len(tried)} trials choose settings on validation before the runs.")
    runs = sum(map(len, variants.values()))
    left = f", and {unknown} runs of which nothing is known" if unknown else ""
    console.print(
        f"{runs} runs of {len(variants)} variants, {config.workers} at a time: {duration(total / config.workers) or '?'} of "
        f"training{left}; evaluation is not counted. A guess may be wrong by a factor of 3, and more on a busy machine: "
        "max_steps=50 measures the speed.\n"
    )


def training_cost(jobs: Sequence[TrainingJob]) -> Cost:
    """Return what one run of a variant takes: from the speed of one that has logged it, else from its operations."""
    train = jobs[0].train
    if not train.train.total_steps:
        return Cost(0.0, "not trained")
    if not isinstance(train.model, DecoderSettings):
        tokenizer = model = None
    else:
        tokenizer = build_tokenizer(train.tokenizer, train.data)
        with torch.device("meta"):
            model = build_model(train, tokenizer)
    if tokenizer is None or model is None:
        return Cost(math.nan, "a pretrained model: not guessed")
    rows = drawn_rows(train, tokenizer)
    drawn = [example.size for row in rows for example in parted(row)]
    share = train.train.total_steps * train.train.batch_size / len(rows)
    for job in jobs:
        speed = (last_record(job.folder / "model" / METRICS) or {}).get("tokens_per_second")
        if speed:
            return Cost(share * sum(drawn) / speed, f"measured: {speed:,.0f} tokens/s in {job.name}")
    seconds = share * training_flops(model).of(drawn) / (product_speed() * UTILISATION)
    return Cost(seconds, "guessed from operations")


_speed: list[float] = []


def product_speed() -> float:
    """Operations per second of a matrix product on this machine, one thread or one GPU."""
    if not _speed:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        one = torch.ones(512, 512, device=device)
        times = []
        for _ in range(8):
            begin = time.perf_counter()
            float((one @ one)[0, 0])
            times.append(time.perf_counter() - begin)
        torch.set_num_threads(threads)
        _speed.append(2 * 512**3 / min(times))
    return _speed[0]


def _print_conditions(variants: dict[str, list[Job]], conditions: dict[str, list[Condition]], console: Console) -> None:
    table = Table("condition", "examples", "variants", title="Examples by condition")
    found: dict[tuple[str, int], set[str]] = {}
    for name, jobs in variants.items():
        for one in conditions[jobs[0].name]:
            words = ", ".join(f"{key} {value}" for key, value in one.own_labels.items() if value != "")
            how = "answer only" if one.labels["answer_only"] else f"forcing {one.labels['forcing']}"
            label = ", ".join(filter(None, [one.diagnostic, words, how]))
            found.setdefault((label, one.examples), set()).add(name)
    for (label, examples), names in found.items():
        table.add_row(label, str(examples), str(len(names)))
    console.print(table)


def _print_comparisons(
    config: ExperimentConfig,
    variants: dict[str, list[Job]],
    conditions: dict[str, list[Condition]],
    rate: float,
    spread: float,
    console: Console,
) -> None:
    comparisons = list(config.comparisons) or _defaults(config, variants, conditions)
    judged = [one for one in comparisons if not _is_diagnosis(one)]
    others = sum(not one.primary for one in judged)
    table = Table(
        "compared",
        "seeds",
        "examples",
        "alone",
        f"of {others}",
        title="What can be decided (power 80 %)",
    )
    for one in judged:
        seeds = len(_jobs(one.baseline, variants)), len(_jobs(one.treatment, variants))
        sides = [_condition(side, variants, conditions) for side in (one.baseline, one.treatment)]
        found = [side for side in sides if side is not None]
        if len(found) < len(sides):
            table.add_row(one.mitigation, f"{seeds[1]} to {seeds[0]}", "no such condition", "", "")
            continue
        examples = min(side.examples for side in found)
        assumed = _seeds(one.baseline, variants), _seeds(one.treatment, variants)
        clusters = min(side.data.task.clusters(side.split, side.examples) for side in found)
        matched = one.baseline.run == one.treatment.run or math.inf in assumed
        alone, worst = (
            decidable(one.asks, one.solved_at, assumed, matched, clusters, level, rate, spread)
            for level in (ALONE, ALONE if one.primary else ALONE / others)
        )
        table.add_row(one.mitigation, f"{seeds[1]} to {seeds[0]}", _sized(examples, clusters), alone, worst)
    console.print(table)
    if left := len(comparisons) - len(judged):
        console.print(f"Fed different roles on their two sides, so diagnoses without a verdict: {left} more.")
    console.print(
        f"Assumed: baseline {rate:.0%} right (--rate), seeds {100 * spread:.0f} points apart (--spread, standard deviation; measured "
        f"9 to 28 for one recipe), outcomes on a program correlated by {CORRELATION:g}; executions of one function right or wrong "
        "together, the worst that can be, and every other example by itself. The last column: if it must hold together with the "
        "others (Holm, at worst). With one seed a side, a difference is of these runs. Below five seeds a side a verdict asks how many "
        f"trainings solve the task. To say fixed of a recipe takes {seeds_for_fixed()} seeds that all solve it."
    )


def _defaults(
    config: ExperimentConfig, variants: dict[str, list[Job]], conditions: dict[str, list[Condition]]
) -> list[Comparison]:
    names = {job.name: variant for variant, jobs in variants.items() for job in jobs}
    planned = [
        cast(
            ConditionSummary,
            {
                "run": run,
                "variant": names[run],
                "diagnostic": one.diagnostic,
                "labels": one.labels,
                "right": one.examples,
            },
        )
        for run, mine in conditions.items()
        for one in mine
    ]
    return default_comparisons(planned, config.baselines)


def _is_diagnosis(comparison: Comparison) -> bool:
    """Say if its sides are fed different roles, as far as it says what they are fed."""
    forcings = {fed_as(str(side.where.get("forcing"))) for side in (comparison.baseline, comparison.treatment)}
    return len(forcings) > 1


def _jobs(side: Side, variants: dict[str, list[Job]]) -> list[Job]:
    return variants.get(side.run) or [job for jobs in variants.values() for job in jobs if job.name == side.run]


def _seeds(side: Side, variants: dict[str, list[Job]]) -> float:
    """Return how many seeds a side has, as `smallest_difference` counts them."""
    jobs = _jobs(side, variants)
    kept = not any(job.train.train.total_steps or isinstance(job.train.model, DecoderSettings) for job in jobs)
    return math.inf if kept else len(jobs)


def _sized(examples: int, clusters: int) -> str:
    """Return how many examples there are, and in how many clusters where these are fewer."""
    return str(examples) if clusters == examples else f"{examples} in {clusters} clusters"


def _condition(side: Side, variants: dict[str, list[Job]], conditions: dict[str, list[Condition]]) -> Condition | None:
    """The condition of a side; None where it fits none."""
    for one in conditions[_jobs(side, variants)[0].name]:
        labels = {"diagnostic": one.diagnostic, **one.labels}
        if all(labels.get(key) == value for key, value in side.where.items()):
            return one
    return None
