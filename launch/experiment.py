"""An experiment: groups of runs that differ in a few settings, how each group is evaluated, and what is compared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from remedy.data_gen.config import ConfigError, UserError, apply_overrides, build, dump
from remedy.eval.config import EvalConfig
from remedy.eval.report import report
from remedy.eval.verdicts import Comparison
from remedy.train.config import RunConfig


class Group(BaseModel):
    """`base`: a run's settings; `runs`: for each run, what differs, as `a.b: value`; `evaluate`: applied to every run;
    `evaluate_runs`: changes to it for single runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: dict[str, Any]
    runs: dict[str, dict[str, Any]] = Field(min_length=1)
    evaluate: dict[str, Any]
    evaluate_runs: dict[str, dict[str, Any]] = {}


class ExperimentConfig(BaseModel):
    """`workers`: runs trained at a time, each process with `threads` CPU threads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    output: str
    title: str = "Report"
    workers: int = Field(default=2, ge=1)
    threads: int = Field(default=1, ge=1)
    groups: dict[str, Group] = Field(min_length=1)
    comparisons: tuple[Comparison, ...] = ()


class Job(BaseModel):
    """One run of an experiment: train, then evaluate."""

    name: str
    folder: Path
    train: RunConfig
    evaluate: EvalConfig


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
        for name, changes in group.runs.items():
            label = f"{where}: groups.{group_name}.runs.{name}"
            folder = Path(config.output) / group_name / name
            base = {**group.base, "name": name, "output": str(folder / "model")}
            train = build(RunConfig, _changed(base, changes), label)
            evaluation = _changed(group.evaluate, group.evaluate_runs.get(name, {}))
            jobs.append(Job(name=name, folder=folder, train=train, evaluate=build(EvalConfig, evaluation, label)))
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise ConfigError(f"{where}: run names must be unique over all groups: {', '.join(names)}")
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
        futures: dict[Future[str], Job] = {pool.submit(_do, job, config.threads): job for job in jobs}
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
    folders = [job.folder / "evaluation" for job in jobs]
    return report(folders, Path(config.output) / "report", config.comparisons or None, config.title)


def _do(job: Job, threads: int) -> str:
    """Run one job in a process of its own; an empty string, or what went wrong."""
    print(f"           {job.name}: started", flush=True)
    job.folder.mkdir(parents=True, exist_ok=True)
    settings, text = job.folder / "train.yaml", dump(job.train)
    if settings.exists() and settings.read_text(encoding="utf-8") != text:
        return f"{job.folder} holds a run of other settings; delete it or choose another output"
    settings.write_text(text, encoding="utf-8")
    (job.folder / "evaluate.yaml").write_text(dump(job.evaluate), encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"}
    log = job.folder / "log.txt"
    with log.open("w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "remedy.launch.job", str(job.folder), job.name]
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment, check=False).returncode
    if code == 0:
        return ""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"failed (exit status {code}; all of it in {log}): {lines[-1] if lines else 'no output'}"


def _changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return apply_overrides(
        base, [f"{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in changes.items()]
    )
