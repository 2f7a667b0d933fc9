"""Runs of an experiment as processes on this machine, some at a time, how far they are, and the report over them."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from remedy.eval.records.folder import REQUEST, SUMMARY
from remedy.eval.report.planned import write_plan
from remedy.eval.report.reading import Evaluations, read_evaluations
from remedy.launch.experiment import ExperimentConfig, Job, conditions, expand, stacks, trials
from remedy.launch.groups import SELECTION_FOLDER
from remedy.launch.job import EVALUATION, begun, folders_of, prepare
from remedy.launch.selection import choose
from remedy.launch.train import given_programs
from remedy.models.model_manifest import recorded_weights, weights_are_gone
from remedy.owner import owned
from remedy.settings import UserError

LOG = "log.txt"
LOOK_SECONDS = 0.5
QUIET_SECONDS = 30.0
"""Seconds between two lines on a run that goes on, without a terminal."""
TAIL = 1 << 14
"""Bytes from a log's end in which its last lines are looked for."""
COLOURS = {"waiting": "dim", "done": "green", "failed": "bold red"}
log = logging.getLogger(__name__)
IMPORTED = ("train.run", "train.wandb_runs", "eval.checkpoint", "eval.evaluate", "launch.evaluate", "launch.job")
"""What a run imports when it comes to it."""


def run(config: ExperimentConfig, where: str) -> Path:
    """Train and evaluate every run, `workers` at a time, skipping what is done, and write the report; returns its page.

    Raises:
        UserError: a run failed (the others are finished first; the message names the log), its folder holds a run of other
            settings, or another process runs an experiment into the same output.
    """
    with owned(Path(config.output)):
        tried, jobs = trials(config, where), expand(config, where)
        check_programs([*tried, *jobs])
        plan(config, jobs)
        if tried:
            _run_all(config, tried, f"{len(tried)} trials that choose settings on validation")
            jobs = expand(config, where, choose(config, tried))
            plan(config, jobs)  # which runs are one variant may hang on what was chosen
        _run_all(config, jobs, f"{len(jobs)} runs")
        return report_all(config, jobs)


def report_done(config: ExperimentConfig, where: str, partial: bool = False) -> Path:
    """The report over the runs that are done; returns its page. `partial`: as of `report_all`.

    Raises:
        UserError: as `report_all`, or trials that choose settings are not finished.
    """
    tried = trials(config, where)
    jobs = expand(config, where, choose(config, tried) if tried else None)
    plan(config, jobs)
    return report_all(config, jobs, partial)


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


def plan(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Write down which runs the experiment consists of."""
    folder = Path(config.output)
    runs = {str(job.folder.relative_to(folder)): {"run": job.name, "variant": job.variant} for job in jobs}
    write_plan(folder, runs)


def report_all(config: ExperimentConfig, jobs: list[Job], partial: bool = False) -> Path:
    """The report over all runs that are evaluated; returns its page. Runs that are tracked put it on W&B too. `partial`: judge recipes
    of which runs are missing.

    Raises:
        UserError: no run is evaluated, or as `report`.
    """
    from remedy.eval.report.page import report
    from remedy.train.wandb_runs import log_report

    output = Path(config.output)
    directories = [job.folder / EVALUATION for job in jobs]
    directories = [one for one in directories if (one / REQUEST).exists()] or directories
    directories += [output / name / SELECTION_FOLDER for name, group in config.groups.items() if group.select]
    page = report(
        directories, output / "report", config.comparisons or None, config.title, config.baselines, partial=partial
    )
    if tracked := [job.train.tracking for job in jobs if job.train.tracking.wandb]:
        log_report(tracked[0], f"{config.name}: report", output / "report")
    return page


def is_done(job: Job) -> bool:
    """Say if a run is trained and its evaluation is finished, the one that is asked for, and of its weights. Of adapters and tracked
    runs its own process finds that out. Where the weights were deleted the records alone are asked.

    Raises:
        UserError: the weights are gone, and without them the evaluation cannot be finished, mended or made as it is asked for.
    """
    if job.members or not job.is_trained or job.evaluate is None:
        return job.is_trained and not job.members
    folder, weights, gone = job.folder / EVALUATION, recorded_weights(job.model), weights_are_gone(job.model)
    try:
        found = read_evaluations([folder])
        problem = "is not finished" if found.missing or not (folder / SUMMARY).exists() else ""
        problem = problem or ("" if _is_asked(job, found) else "holds another evaluation")
        problem = f"{folder}: {problem}" if problem else ""
    except UserError as error:
        problem = str(error)
    if gone and problem:
        raise UserError(
            f"{problem}, and the weights are gone: put them back, or delete {job.folder} to train again"
        ) from None
    if gone or problem:
        return not problem
    evaluated = found.requests[0].get("checkpoint", {}).get("weights")
    return bool(weights) and evaluated == weights and not job.train.tracking.wandb


def _is_asked(job: Job, found: Evaluations) -> bool:
    """Say if an evaluation is the job's."""
    assert job.evaluate is not None
    request = found.requests[0]
    variant = job.variant if job.variant != job.name else ""
    asked = {"run": job.name, "variant": variant, "evaluation": job.evaluate.asked}
    chosen = (request.get("training") or {"chosen": job.chosen})["chosen"]
    in_4bit = job.evaluate.load_in_4bit in (None, "quantization" in request)
    return all(request.get(key) == value for key, value in asked.items()) and chosen == job.chosen and in_4bit


def _run_all(config: ExperimentConfig, jobs: Sequence[Job], what: str) -> None:
    """Train those that are trained at once, then do all.

    Raises:
        UserError: any of them failed.
    """
    if at_once := stacks(jobs):
        count = sum(len(one.members) for one in at_once)
        _do_all(config, at_once, f"{count} seeds in {len(at_once)} trainings")
    _do_all(config, jobs, what)


def _do_all(config: ExperimentConfig, jobs: Sequence[Job], what: str) -> None:
    print(f"{what}, {config.workers} at a time; each writes {LOG} in its folder below {config.output}", flush=True)
    waiting, took = list(jobs), dict[str, float]()
    running: dict[str, tuple[Job, BaseProcess, float]] = {}
    ended: dict[str, str] = {}
    context = _context()
    try:
        with Board([job.name for job in jobs]) as board:
            while len(ended) < len(jobs):
                if waiting and len(running) < config.workers:
                    job = longest(waiting, took)
                    waiting.remove(job)
                    try:
                        prepare(job)
                        if is_done(job):
                            ended[job.name] = ""
                        else:
                            running[job.name] = job, _begin(context, config, job), time.monotonic()
                    except UserError as error:
                        ended[job.name] = str(error)
                else:
                    wait([process.sentinel for _, process, _ in running.values()], LOOK_SECONDS)
                    for name, (job, process, since) in list(running.items()):
                        if process.exitcode is not None:
                            del running[name]
                            ended[name] = _problem(job, process.exitcode)
                            took[job.variant] = time.monotonic() - since
                board.show(ended, {name: job.folder / LOG for name, (job, _, _) in running.items()})
    finally:  # at an interrupt, each with a checkpoint
        for _, process, _ in running.values():
            process.terminate()
        for _, process, _ in running.values():
            process.join()
    if failed := [f"{job.name}: {ended[job.name]}" for job in jobs if ended[job.name]]:
        raise UserError("\n".join(failed))


def _context() -> BaseContext:
    """The way in which processes begin: forked from one that has imported what they need, which alone would cost each seconds.

    On other systems than Linux, whose libraries may not survive a fork, and with CUDA, whose state does not, each imports for itself.
    """
    os.environ["TQDM_DISABLE"] = "1"
    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"remedy.{name}" for name in IMPORTED])
    return context  # type: ignore[no-any-return]


def _begin(context: Any, config: ExperimentConfig, job: Job) -> BaseProcess:
    given = (folders_of(job), job.folder / LOG, config.processes, config.threads)
    process: BaseProcess = context.Process(target=begun, args=given, name=job.name)
    process.start()
    return process


def longest(waiting: Sequence[Job], took: Mapping[str, float]) -> Job:
    """The run to begin next, so that no long one is left for the end: of variants of which none has ended before, then that
    whose variant took longest (`took`, seconds); of equals that of most rows, then the first."""
    return max(
        waiting,
        key=lambda job: (took.get(job.variant, math.inf), job.train.train.total_steps * job.train.train.batch_size),
    )


def _problem(job: Job, status: int) -> str:
    """Return what went wrong in a run's process; an empty string if nothing did."""
    if not status:
        return ""
    path = job.folder / LOG
    said = last_line(path, "error: ") or last_line(path) or "no output"  # torchrun's own last word is a table
    return f"failed (exit status {status}; all of it in {path}): {said}"


def last_line(path: Path, start: str = "") -> str:
    """The last line of a log that begins so and is not empty; an empty string if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if line.strip() and line.startswith(start)), "")


class Board:
    """Shows how far all runs are, as a context."""

    def __init__(self, names: Iterable[str], console: Console | None = None) -> None:
        console = console or Console()
        self.begin = time.monotonic()
        self.shown: dict[str, tuple[str, float]] = dict.fromkeys(names, ("waiting", self.begin))
        self.live = Live(console=console, refresh_per_second=4) if console.is_terminal else None

    def __enter__(self) -> Board:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, ended: Mapping[str, str], running: Mapping[str, Path]) -> None:
        """The state of all runs; call it often. `ended`: what went wrong, if anything; `running`: logs, whose last lines say more."""
        table = Table("run", "state", "", box=None, pad_edge=False, header_style="bold")
        now = time.monotonic()
        for name, (before, since) in self.shown.items():
            state, more = "waiting", ""
            if name in ended:
                state, more = ("failed", ended[name]) if ended[name] else ("done", "")
            elif name in running:
                state, more = "running", last_line(running[name])
            table.add_row(Text(name), state, Text(more), style=COLOURS.get(state))
            if state != before or (state == "running" and now - since >= QUIET_SECONDS):
                self.shown[name] = (state, now)
                if self.live is None:
                    log.info("[%5.0f s] %s: %s", now - self.begin, name, ", ".join(filter(None, (state, more))))
        if self.live is not None:
            self.live.update(table)
