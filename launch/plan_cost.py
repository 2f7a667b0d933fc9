"""Cost of an experiment's trainings, from real optimizer steps."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from rich.console import Console

from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job
from remedy.messages import plural
from remedy.processes import redirect_output
from remedy.settings import resolve
from remedy.speed import duration
from remedy.train.config import RunConfig
from remedy.train.division import describe_step, passes

if TYPE_CHECKING:
    from remedy.train.trial import Cost

IN_ANY_STEP = (
    "seed data_seed learning_rate min_lr_ratio lr_scheduler_type warmup_ratio weight_decay adam_beta2 max_grad_norm evaluate_every "
    "validation_examples keep_best patience logging_steps save_steps"
)
"""Training settings that do not change a step's cost."""


def print_cost(config: ExperimentConfig, jobs: Sequence[Job], console: Console | None = None) -> None:
    """Print the cost of untrained runs, equal runs in one row."""
    console = console or Console()
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if job.train.train.total_steps and not job.is_trained:
            groups.setdefault(_shape(job.train), []).append(job)
    if not groups:
        console.print("Nothing is left to be trained.")
        return
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded for an estimate
    total, unknown, lines, remarks = 0.0, 0, list[str](), dict[str, None]()
    with console.status("") as status:
        for number, group in enumerate(groups.values(), 1):
            status.update(f"measuring {number} of {len(groups)}: {group[0].name}")
            settings, cost = group[0].train.train, _measured(group[0].train, config)
            seconds = cost.seconds
            total, unknown = total + len(group) * (seconds or 0), unknown + len(group) * (seconds is None)
            name = ", ".join(dict.fromkeys(job.variant for job in group))
            padding = f" ({1 - cost.tokens / cost.computed:.0%} padding)" if cost.tokens and cost.computed else ""
            parts = {
                "each with {} tokens" + padding: _short(cost.tokens),
                "{} FLOPs": _short(cost.flops),
                "{} a run": duration(seconds),
                "{} in all": duration(seconds and len(group) * seconds) if len(group) > 1 else "",
                "{:.1f} GiB": cost.memory and cost.memory / 2**30,
            }
            costs = [text.format(value) for text, value in parts.items() if value]
            lines.append(f"- {name}: " + ", ".join([plural(len(group), "training"), *costs]))
            sizes = settings.batch_size, settings.micro_batch_size, config.processes
            if passes(*sizes) * config.processes > 1:
                remarks[f"{name}: a step has {describe_step(*sizes)}."] = None
            if cost.remark:
                remarks[f"{name}: {cost.remark}."] = None
    console.print("What it costs", style="italic")
    console.print("\n".join(lines), markup=False, highlight=False)
    if total:
        parallel = min(config.workers, sum(map(len, groups.values())))
        unmeasured = f" {plural(unknown, 'training')} could not be measured." if unknown else ""
        together = (
            f", {duration(total / parallel)} if {parallel} at a time are as fast as one alone" if parallel > 1 else ""
        )
        console.print(
            f"All that was measured takes {duration(total)} one after another{together}.{unmeasured} Measured: of the first "
            f"training of each line, steps of each stage, alone, with {plural(config.threads, 'thread')} (on a CPU the processor's "
            "time, which other programs can raise by half), and a process's memory at its peak. Inferred: all other steps and "
            "trainings, by number; stages for which time was short, by their tokens. Not measured: evaluation, validation, saving."
        )
    for remark in remarks:
        console.print(remark, highlight=False)


def _shape(train: RunConfig) -> str:
    """Return the settings that determine a step's cost, as JSON."""
    excluded: Any = {"name": True, "output": True, "tracking": True, "plugins": True, "train": {*IN_ANY_STEP.split()}}
    return json.dumps(train.model_dump(mode="json", exclude=excluded), sort_keys=True)


def _measured(train: RunConfig, config: ExperimentConfig) -> Cost:
    from remedy.launch.runner import process_context
    from remedy.train.trial import Cost

    # Its peak of memory is then that of this training alone.
    with ProcessPoolExecutor(1, process_context("train.trial"), redirect_output, (os.devnull,)) as pool:
        arguments = train.model_dump(mode="json"), config.processes, config.threads
        try:
            return pool.submit(_cost, *arguments).result()
        except BrokenProcessPool:
            return Cost(remark="not measured: the process was killed, which a want of memory does")


def _cost(settings: dict[str, Any], processes: int, threads: int) -> Cost:
    from remedy.train.trial import cost

    return cost(resolve(RunConfig, settings, {}, settings["name"])[0], processes, threads)


def _short(count: float | None) -> str:
    """Write a count with three digits: `1.2 M`, `3.4e15`."""
    if count is None:
        return ""
    if count >= 1e12:
        return f"{count:.1e}".replace("e+", "e")
    size, unit = next(
        (size, unit) for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1, "")) if count >= size or size == 1
    )
    return f"{count / size:.3g}{unit}"
