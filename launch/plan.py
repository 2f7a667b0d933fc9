"""`remedy run --plan`: what an experiment can decide, and what it runs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import pandas as pd
from rich.console import Console
from rich.table import Table

from remedy.eval.conditions import outcomes
from remedy.eval.decoding.forcings import fed_as
from remedy.eval.diagnostics import Condition
from remedy.eval.records.folder import REQUEST, read_request
from remedy.eval.records.schema import FRAMES, with_changed
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison, Side, check_seeds
from remedy.eval.report.defaults import default_comparisons
from remedy.eval.report.planned import EVALUATION
from remedy.eval.report.reading import read_evaluations
from remedy.eval.report.verdicts import ALONE
from remedy.eval.report.wording import METRICS
from remedy.eval.stats.power import CORRELATION, RATE, SPREADS, WITHIN, decidable, independent, seeds_for_fixed
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job, conditions, expand, trials
from remedy.launch.train import given_programs
from remedy.messages import plural
from remedy.models.config import DecoderSettings
from remedy.settings import UserError

Variants = Mapping[str, list[Job]]


class ComparedSide(NamedTuple):
    """One side of a comparison; `condition` is None if none fits."""

    jobs: list[Job]
    condition: Condition | None

    @property
    def seeds(self) -> float:
        """Count the seeds; infinite for an untrained pretrained model."""
        untrained = not any(
            job.train.train.total_steps or isinstance(job.train.model, DecoderSettings) for job in self.jobs
        )
        return math.inf if untrained else len(self.jobs)

    @property
    def counted_seeds(self) -> int:
        return 1 if self.seeds == math.inf else len(self.jobs)


def print_plan(
    config: ExperimentConfig,
    where: str,
    rate: float | None = None,
    spread: float | None = None,
    console: Console | None = None,
) -> list[Job]:
    """Print an experiment's plan without costs; return its trials and runs.

    `rate`: the baseline's assumed rate. `spread`: the assumed standard deviation of seeds. Defaults: finished runs', or
    `RATE` and `SPREADS`.

    Raises:
        UserError: as `expand`, or a diagnostic does not fit its data.
    """
    console = console or Console()
    jobs, trial_jobs = expand(config, where), trials(config, where)
    check_programs(jobs)
    check_comparisons(config, jobs)
    variants = _by_variant(jobs)
    conditions_by_variant = {name: conditions(jobs[0]) for name, jobs in variants.items()}
    _print_comparisons(config, variants, conditions_by_variant, rate, spread, console)
    _print_conditions(conditions_by_variant, console)
    _print_runs(config, variants, conditions_by_variant, _by_variant(trial_jobs), console)
    return [*trial_jobs, *jobs]


def check_programs(jobs: Sequence[Job]) -> None:
    """Print the split sizes of given programs of untrained runs.

    Raises:
        ConfigError: training, validation or a diagnostic has no programs, or a diagnostic does not fit its data.
    """
    lines: dict[str, None] = {}
    for job in jobs:
        if not job.is_trained:
            lines |= dict.fromkeys(given_programs(job.train))
            conditions(job)
    for line in lines:
        print(line, flush=True)


def check_comparisons(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Raise a ConfigError if a comparison asks what its seeds cannot answer."""
    for comparison in config.comparisons:
        sides = [
            ComparedSide([job for job in jobs if side.run in (job.name, job.variant)], None)
            for side in (comparison.baseline, comparison.treatment)
        ]
        before, after = (side.counted_seeds for side in sides)
        fixed = [side.seeds == math.inf for side in sides]
        of_recipes = max(before, after) > 1 and all(count > 1 or one for count, one in zip((before, after), fixed))
        matched = comparison.baseline.run == comparison.treatment.run or any(fixed)
        check_seeds(comparison, (before, after), of_recipes, matched)


def comparisons_of(config: ExperimentConfig, jobs: Sequence[Job]) -> Sequence[Comparison]:
    """Return the comparisons of the experiment's report.

    Raises:
        ConfigError: a diagnostic does not fit its data.
    """
    planned = [
        {
            "run": job.name,
            "variant": job.variant,
            "diagnostic": condition.diagnostic,
            "labels": condition.labels,
            "right": condition.examples,
        }
        for runs in _by_variant(jobs).values()
        for condition in conditions(runs[0])
        for job in runs
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
    conditions_by_variant: Mapping[str, list[Condition]],
    trials_by_variant: Variants,
    console: Console,
) -> None:
    table = Table("variant", "runs", "trials", "steps", "examples", "evaluated on", title="Runs")
    for name, jobs in variants.items():
        train = jobs[0].train.train
        examples = train.total_steps * train.batch_size * train.pack
        counts = f"{len(jobs)}", f"{len(trials_by_variant.get(name, ()))}", f"{train.total_steps:,}", f"{examples:,}"
        table.add_row(name, *counts, f"{sum(condition.examples for condition in conditions_by_variant[name]):,}")
    console.print(table)
    if trials_by_variant:
        console.print(
            f"{sum(map(len, trials_by_variant.values()))} trials choose settings on validation before the runs."
        )
    runs = sum(map(len, variants.values()))
    console.print(f"{plural(runs, 'run')} of {plural(len(variants), 'variant')}, {config.workers} at a time.\n")


def _print_conditions(conditions_by_variant: Mapping[str, list[Condition]], console: Console) -> None:
    table = Table("condition", "examples", "variants", title="Examples by condition")
    variants_of: dict[tuple[str, int], set[str]] = {}
    for name, of_variant in conditions_by_variant.items():
        for condition in of_variant:
            labels = [f"{key} {value}" for key, value in condition.own_labels.items() if value != ""]
            prompting = "answer only" if condition.labels["answer_only"] else f"forcing {condition.labels['forcing']}"
            variants_of.setdefault(
                (", ".join([condition.diagnostic, *labels, prompting]), condition.examples), set()
            ).add(name)
    for (label, examples), names in variants_of.items():
        table.add_row(label, str(examples), str(len(names)))
    console.print(table)


def _print_comparisons(
    config: ExperimentConfig,
    variants: Variants,
    conditions_by_variant: Mapping[str, list[Condition]],
    rate: float | None,
    spread: float | None,
    console: Console,
) -> None:
    jobs = [job for runs in variants.values() for job in runs]
    comparisons, records = comparisons_of(config, jobs), _records(jobs)
    # Sides whose labels say that they are fed different roles are a diagnosis.
    fed = [
        {fed_as(str(side.where.get("forcing"))) for side in (comparison.baseline, comparison.treatment)}
        for comparison in comparisons
    ]
    decided = [comparison for comparison, forcings in zip(comparisons, fed) if len(forcings) == 1]
    corrected = sum(not comparison.primary for comparison in decided)
    lines, alone = [], []
    for comparison in decided:
        sides = [
            _compared(side, variants, conditions_by_variant) for side in (comparison.baseline, comparison.treatment)
        ]
        levels = ALONE, ALONE if comparison.primary else ALONE / corrected
        setting, *decisions = _decidable(comparison, sides, records, levels, rate, spread)
        alone.append(decisions[0])
        corrections = f"; corrected for {corrected}: {decisions[1]}" if decisions[1] != decisions[0] else ""
        lines.append(f"- {comparison.mitigation} ({setting}): {decisions[0]}{corrections}")
    for why in dict.fromkeys(decision for decision in alone if decision.startswith("nothing")):
        console.print(f"{alone.count(why)} of {plural(len(lines), 'comparison')} can decide {why}.", style="bold")
    if lines:
        console.print("What can be decided (power 80 %)", style="italic")
        console.print("\n".join(lines), markup=False, highlight=False)
        console.print(_assumptions({comparison.metric for comparison in decided}, not records.empty))
    else:
        console.print("No comparison gets a verdict: the report shows each side's rates alone.")
    if diagnoses := len(comparisons) - len(decided):
        console.print(f"Fed different roles on their two sides, so diagnoses without a verdict: {diagnoses} more.")


def _decidable(
    comparison: Comparison,
    sides: Sequence[ComparedSide],
    records: pd.DataFrame,
    levels: Sequence[float],
    rate: float | None,
    spread: float | None,
) -> list[str]:
    """Return a comparison's setting in words, and what it decides at each level."""
    seeds, metric = f"{len(sides[1].jobs)} against {len(sides[0].jobs)} seeds", comparison.metric
    compared = [side.condition for side in sides if side.condition is not None]
    if len(compared) < len(sides):
        return [seeds, *["nothing: a side has no such condition"] * len(levels)]
    units = min(outcomes(condition, metric) for condition in compared)
    clusters = min(condition.data.task.clusters(condition.split, condition.examples) for condition in compared)
    rates = [_rates(records, side, metric) for side in sides]
    spreads = [float(rates_of_side.std(ddof=1)) for rates_of_side in rates if len(rates_of_side) > 1]
    marks = ["*" if rate is None and len(rates[0]) else "", "*" if spread is None and spreads else ""]
    if rate is None:
        rate = float(rates[0].mean()) if len(rates[0]) else RATE
    if spread is None:
        spread = max(spreads, default=SPREADS[metric][0])
    seeds_of_sides = sides[0].seeds, sides[1].seeds
    matched = comparison.baseline.run == comparison.treatment.run or math.inf in seeds_of_sides
    arguments = comparison.asks, comparison.solved_at, seeds_of_sides, matched, clusters
    effective = None if metric == "answer" else independent(units, clusters)
    unit = METRICS[metric][1].partition(",")[0] or "examples"
    size = f"{units:,.0f} {unit}" + ("" if clusters == units else f" in {clusters:,} clusters")
    decisions = [decidable(*arguments, level, rate, spread, effective) for level in levels]
    setting = f"{seeds}, {size}, baseline {rate:.0%}{marks[0]}, spread {100 * spread:.0f}{marks[1]}"
    return [setting, *decisions]


def _assumptions(metrics: set[str], any_records: bool) -> str:
    spreads = "; ".join(
        f"{100 * spread:.0f} of {metric.replace('_', ' ')}s ({100 * low:.0f} to {100 * high:.0f} in half of results/study's recipes)"
        for metric, (spread, low, high) in SPREADS.items()
        if metric in metrics
    )
    measured = " * As in the runs of this experiment that are done." if any_records else ""
    sentences = [
        f"Assumed unless given: a baseline of {RATE:.0%} (--rate); a standard deviation of seeds' rates, in points "
        f"(--spread), of {spreads}.{measured}",
        f"Outcomes of two models on a program are correlated by {CORRELATION:g}.",
    ]
    if "answer" in metrics:
        sentences.append("All answers in a cluster, such as executions of one function, are right or wrong together.")
    if metrics - {"answer"}:
        sentences.append(f"States or actions in a cluster are correlated by {WITHIN:g}.")
    return " ".join(sentences) + (
        " Corrected is by Holm, at worst. With one seed a side, a verdict is about these runs only; "
        f"below five, it compares how many trainings solve the task. Fixed takes {seeds_for_fixed()} seeds that all solve it."
    )


def _records(jobs: Sequence[Job]) -> pd.DataFrame:
    finished = []
    # Without records that can be read, rates and spreads are assumed.
    with contextlib.suppress(UserError):
        for job in jobs:
            folder = Path(job.folder, EVALUATION)
            if job.evaluate is not None and (folder / REQUEST).exists():
                request = read_request(folder)
                if (request.get("run"), request.get("evaluation")) == (job.name, job.evaluate.asked):
                    finished.append(folder)
        return with_changed(read_evaluations(finished).records)
    return pd.DataFrame()


def _rates(records: pd.DataFrame, side: ComparedSide, metric: str) -> pd.Series:
    share, count = FRAMES.get(metric, ("right", ""))
    if side.condition is None or share not in records:
        return pd.Series(dtype=float)
    selected = records["run"].isin([job.name for job in side.jobs]) & (records["condition"] == side.condition.slug)
    rows = records[selected & records[share].notna()]
    weights = rows[count].astype(float) if count else pd.Series(1.0, rows.index)
    return (rows[share].astype(float) * weights).groupby(rows["run"]).sum() / weights.groupby(rows["run"]).sum()


def _compared(side: Side, variants: Variants, conditions_by_variant: Mapping[str, list[Condition]]) -> ComparedSide:
    jobs = variants.get(side.run) or [job for runs in variants.values() for job in runs if job.name == side.run]
    for condition in conditions_by_variant[jobs[0].variant]:
        labels = {"diagnostic": condition.diagnostic, **condition.labels}
        if all(labels.get(key) == value for key, value in side.where.items()):
            return ComparedSide(jobs, condition)
    return ComparedSide(jobs, None)
