"""An experiment: groups of runs that differ in a few settings, how each group is evaluated, and what is compared."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from remedy.data_gen.settings import ConfigError, Settings, UserError, apply_changes, build, dump
from remedy.eval.config import EvalConfig
from remedy.eval.report.verdicts import Comparison
from remedy.train.config import RunConfig


class Group(Settings):
    """`base`: a run's settings; `runs`: for each run, what differs, as `a.b: value`; `grid`: settings and the values each takes,
    all combinations of them a run (of each of `runs`, if there are any); `evaluate`: applied to every run; `evaluate_runs`:
    changes to it for single ones of `runs`."""

    base: dict[str, Any]
    runs: dict[str, dict[str, Any]] = {}
    grid: dict[str, tuple[Any, ...]] = {}
    evaluate: dict[str, Any]
    evaluate_runs: dict[str, dict[str, Any]] = {}

    @model_validator(mode="after")
    def _not_empty(self) -> Group:
        if not self.runs and not self.grid:
            raise ValueError("give `runs`, `grid` or both")
        empty = [key for key, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"grid.{empty[0]} has no values")
        return self


class ExperimentConfig(Settings):
    """`workers`: runs trained at a time, each process with `threads` CPU threads. `processes`: of one training run (GPUs of this
    machine), started by torchrun; evaluation takes one."""

    name: str
    output: str
    title: str = "Report"
    workers: int = Field(default=2, ge=1)
    processes: int = Field(default=1, ge=1)
    threads: int = Field(default=1, ge=1)
    groups: dict[str, Group] = Field(min_length=1)
    comparisons: tuple[Comparison, ...] = ()


class Job(Settings):
    """One run of an experiment: train, then evaluate. `variant`: what it shares with the same run of other seeds."""

    name: str
    variant: str
    folder: Path
    train: RunConfig
    evaluate: EvalConfig


class Member(NamedTuple):
    """A run of a group before its settings are resolved."""

    name: str
    variant: str
    of: str
    changes: dict[str, Any]


def members(group: Group) -> list[Member]:
    """The runs of a group: each of `runs` at each point of the grid. A key that ends in `seed` is no part of the variant."""
    found = []
    for of, changes in (group.runs or {"": {}}).items():
        for values in itertools.product(*group.grid.values()):
            point = dict(zip(group.grid, values))
            words = {key: f"{key.rsplit('.', 1)[-1]}={_word(value)}" for key, value in point.items()}
            kept = [word for key, word in words.items() if not key.endswith("seed")]
            name = ",".join([*([of] if of else []), *words.values()])
            variant = ",".join([*([of] if of else []), *kept]) or "all"
            found.append(Member(name, variant if len(kept) < len(words) else name, of, {**changes, **point}))
    return found


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "+".join(f"{k}-{_word(v)}" for k, v in value.items())
    return "+".join(map(_word, value)) if isinstance(value, (list, tuple)) else str(value)


def expand(config: ExperimentConfig, where: str) -> list[Job]:
    """All runs with their resolved settings.

    Raises:
        ConfigError: a run's settings do not validate; the message names the run.
    """
    jobs: list[Job] = []
    for group_name, group in config.groups.items():
        unknown = set(group.evaluate_runs) - set(group.runs)
        if unknown:
            raise ConfigError(f"{where}: groups.{group_name}.evaluate_runs names no run: {', '.join(sorted(unknown))}")
        for name, variant, of, changes in members(group):
            label = f"{where}: groups.{group_name}.runs.{name}"
            folder = Path(config.output) / group_name / name.replace("/", "-")
            base = {**group.base, "name": name, "output": str(folder / "model")}
            tracking = {"group": config.name, "tags": [group_name, variant], **base.get("tracking", {})}
            train = build(RunConfig, apply_changes({**base, "tracking": tracking}, changes), label)
            evaluation = build(EvalConfig, apply_changes(group.evaluate, group.evaluate_runs.get(of, {})), label)
            jobs.append(Job(name=name, variant=variant, folder=folder, train=train, evaluate=evaluation))
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{where}: run names must be unique over all groups; {twice!r} comes twice")
    return jobs


def run(config: ExperimentConfig, where: str) -> Path:
    """Train and evaluate every run, `workers` at a time, skipping what is done, and write the report; returns its page.

    Raises:
        UserError: a run failed (the others are finished first; the message names the log), or its folder holds a run of
            other settings.
    """
    jobs = expand(config, where)
    failed: list[str] = []
    print(
        f"{len(jobs)} runs, {config.workers} at a time; each writes log.txt in its folder below {config.output}",
        flush=True,
    )
    begin = time.perf_counter()
    with ThreadPoolExecutor(config.workers) as pool:
        futures: dict[Future[str], Job] = {pool.submit(_do, job, config): job for job in jobs}
        pending = set(futures)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                job, problem = futures[future], future.result()
                elapsed = time.perf_counter() - begin
                print(f"[{elapsed:6.0f} s] {job.name}: {problem or 'done'}", flush=True)
                if problem:
                    failed.append(f"{job.name}: {problem}")
    if failed:
        raise UserError("\n".join(failed))
    return report_all(config, jobs)


def report_all(config: ExperimentConfig, jobs: list[Job]) -> Path:
    """The report over all runs; returns its page. Runs that are tracked put it on W&B too."""
    from remedy.eval.report.page import report
    from remedy.train.wandb_runs import log_report

    folder = Path(config.output) / "report"
    page = report([job.folder / "evaluation" for job in jobs], folder, config.comparisons or None, config.title)
    tracked = [job.train.tracking for job in jobs if job.train.tracking.wandb]
    if tracked:
        log_report(tracked[0], f"{config.name}: report", folder)
    return page


def prepare(job: Job) -> str:
    """Write a run's settings into its folder; an empty string, or why that cannot be."""
    job.folder.mkdir(parents=True, exist_ok=True)
    settings, text = job.folder / "train.yaml", dump(job.train)
    if settings.exists() and settings.read_text(encoding="utf-8") != text:
        return f"{job.folder} holds a run of other settings; delete it or choose another output"
    settings.write_text(text, encoding="utf-8")
    (job.folder / "evaluate.yaml").write_text(dump(job.evaluate), encoding="utf-8")
    return ""


def command(job: Job, processes: int) -> list[str]:
    """What runs a prepared job."""
    words = [sys.executable, "-m", "remedy.launch.job", str(job.folder), job.name, "--processes", str(processes)]
    return [*words, "--variant", job.variant] if job.variant != job.name else words


def _do(job: Job, config: ExperimentConfig) -> str:
    """Run one job in a process of its own; an empty string, or what went wrong."""
    print(f"           {job.name}: started", flush=True)
    problem = prepare(job)
    if problem:
        return problem
    environment = {**os.environ, "OMP_NUM_THREADS": str(config.threads), "TQDM_DISABLE": "1"}
    log = job.folder / "log.txt"
    with log.open("w", encoding="utf-8") as file:
        words = command(job, config.processes)
        code = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False).returncode
    if code == 0:
        return ""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"failed (exit status {code}; all of it in {log}): {lines[-1] if lines else 'no output'}"
