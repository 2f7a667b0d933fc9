"""An experiment walked forward on this machine: trials, then runs, some at a time, each a process; and the report over them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from remedy.eval.records.folder import REQUEST, SUMMARY
from remedy.eval.report.planned import PLAN, write_plan, write_runs
from remedy.eval.report.reading import read_evaluations
from remedy.launch.experiment import SELECTION_FOLDER, ExperimentConfig
from remedy.launch.job import EVALUATION, begun, folders_of, prepare
from remedy.launch.jobs import Job, choose, expand, stacks, trials
from remedy.launch.plan import check_programs, comparisons_of
from remedy.models.model_manifest import recorded_weights, weights_are_gone
from remedy.owner import owned
from remedy.settings import UserError

LOG = "log.txt"
LOOK_SECONDS = 0.5
QUIET_SECONDS = 30.0
"""Seconds between two lines on a run that goes on."""
IMPORTED = ("train.run", "eval.checkpoint", "eval.evaluate", "launch.evaluate", "launch.job")
"""What a run imports when it comes to it."""
log = logging.getLogger(__name__)


def run(config: ExperimentConfig, where: str) -> Path:
    """Train and evaluate every run, `workers` at a time, skipping what is done, and write the report; returns its page.

    Raises:
        UserError: a run failed (the others are finished first; the message names the log), its folder holds a run of other
            settings, or another process runs an experiment into the same output.
    """
    with owned(Path(config.output)):
        tried, jobs = trials(config, where), expand(config, where)
        check_programs([*tried, *jobs])
        set_out(config, jobs)
        if tried:
            _do(config, tried, f"{len(tried)} trials that choose settings on validation")
            jobs = expand(config, where, choose(config, tried))
            list_runs(config, jobs)  # which runs are one variant may hang on what was chosen
        _do(config, jobs, f"{len(jobs)} runs")
        return report_all(config, jobs)


def report_done(config: ExperimentConfig, where: str, partial: bool = False) -> Path:
    """The report over the runs that are done; returns its page. `partial`: as of `report_all`.

    Raises:
        UserError: as `report_all`, or trials that choose settings are not finished.
    """
    tried = trials(config, where)
    jobs = expand(config, where, choose(config, tried) if tried else None)
    list_runs(config, jobs)
    return report_all(config, jobs, partial)


def set_out(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Write down, before anything is trained, which runs the experiment consists of and what it compares. Once a run is evaluated it is
    too late for a plan."""
    list_runs(config, jobs)
    folder = Path(config.output)
    if (folder / PLAN).exists() or not any((job.folder / EVALUATION / REQUEST).exists() for job in jobs):
        write_plan(folder, comparisons_of(config, jobs), {job.name: job.train.train.seed for job in jobs})


def list_runs(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Write down which runs the experiment consists of."""
    folder = Path(config.output)
    write_runs(folder, {str(job.folder.relative_to(folder)): {"run": job.name, "variant": job.variant} for job in jobs})


def report_all(config: ExperimentConfig, jobs: list[Job], partial: bool = False) -> Path:
    """The report over all runs that are evaluated; returns its page. Runs that are tracked put it on W&B too. `partial`: judge recipes
    of which runs are missing.

    Raises:
        UserError: no run is evaluated, or as `report`.
    """
    from remedy.eval.report.page import report
    from remedy.train.tracking import log_report

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
    folder = job.folder / EVALUATION
    try:
        found = read_evaluations([folder])
        request = found.requests[0]
        problem = ""
        if found.missing or not (folder / SUMMARY).exists():
            problem = f"{folder}: is not finished"
        elif not _is_asked(job, request):
            problem = f"{folder}: holds another evaluation"
    except UserError as error:
        problem = str(error)
    if weights_are_gone(job.model):
        if problem:
            raise UserError(
                f"{problem}, and the weights are gone: put them back, or delete {job.folder} to train again"
            ) from None
        return True
    weights = recorded_weights(job.model)
    if problem or not weights or job.train.tracking.wandb:
        return False
    return bool(request.get("checkpoint", {}).get("weights") == weights)


def _is_asked(job: Job, request: Mapping[str, Any]) -> bool:
    """Say if an evaluation is the job's."""
    assert job.evaluate is not None
    variant = job.variant if job.variant != job.name else ""
    asked = {"run": job.name, "variant": variant, "evaluation": job.evaluate.asked}
    chosen = (request.get("training") or {"chosen": job.chosen})["chosen"]
    in_4bit = job.evaluate.load_in_4bit in (None, "quantization" in request)
    return all(request.get(key) == value for key, value in asked.items()) and chosen == job.chosen and in_4bit


def _do(config: ExperimentConfig, jobs: Sequence[Job], what: str) -> None:
    """Train those that are trained at once, then do all."""
    if at_once := stacks(jobs):
        count = sum(len(one.members) for one in at_once)
        _do_all(config, at_once, f"{count} seeds in {len(at_once)} trainings")
    _do_all(config, jobs, what)


def _do_all(config: ExperimentConfig, jobs: Sequence[Job], what: str) -> None:
    """Do all jobs, those of most rows first, so that no long one is left for the end."""
    print(f"{what}, {config.workers} at a time; each writes {LOG} in its folder below {config.output}", flush=True)
    waiting = sorted(jobs, key=lambda job: -job.train.train.total_steps * job.train.train.batch_size)
    running: dict[str, tuple[Job, BaseProcess]] = {}
    ended: dict[str, str] = {}
    context, board = _context(), Board(job.name for job in jobs)
    ends = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as an interrupt does
    try:
        while len(ended) < len(jobs):
            if waiting and len(running) < config.workers:
                job = waiting.pop(0)
                try:
                    prepare(job)
                    if is_done(job):
                        ended[job.name] = ""
                    else:
                        given = (folders_of(job), job.folder / LOG, config.processes, config.threads)
                        process = context.Process(target=begun, args=given, name=job.name)
                        process.start()
                        running[job.name] = job, process
                except UserError as error:
                    ended[job.name] = str(error)
            else:
                wait([process.sentinel for _, process in running.values()], LOOK_SECONDS)
                for name, (job, process) in list(running.items()):
                    if process.exitcode is not None:
                        del running[name]
                        ended[name] = _problem(job, process.exitcode)
            board.show(ended, {name: job.folder / LOG for name, (job, _) in running.items()})
    finally:  # at an interrupt, each with a checkpoint
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()
        signal.signal(signal.SIGTERM, ends)
    if failed := [f"{job.name}: {ended[job.name]}" for job in jobs if ended[job.name]]:
        raise UserError("\n".join(failed))


def _context() -> Any:
    """The way in which processes begin: forked from one that has imported what they need, which alone would cost each seconds.

    On other systems than Linux, whose libraries may not survive a fork, and with CUDA, whose state does not, each imports for itself.
    """
    os.environ["TQDM_DISABLE"] = "1"
    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"remedy.{name}" for name in IMPORTED])
    return context


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
        file.seek(max(0, file.seek(0, 2) - (1 << 14)))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if line.strip() and line.startswith(start)), "")


class Board:
    """Says how far all runs are: a line at each change, and now and then of each that goes on."""

    def __init__(self, names: Iterable[str]) -> None:
        self.begin = time.monotonic()
        self.said: dict[str, tuple[str, float]] = dict.fromkeys(names, ("waiting", self.begin))

    def show(self, ended: Mapping[str, str], running: Mapping[str, Path]) -> None:
        """The state of all runs; call it often. `ended`: what went wrong, if anything; `running`: logs, whose last lines say more."""
        now = time.monotonic()
        for name in [*ended, *running]:
            before, since = self.said[name]
            state = "running" if name in running else "failed" if ended[name] else "done"
            if state != before or (state == "running" and now - since >= QUIET_SECONDS):
                self.said[name] = state, now
                more = last_line(running[name]) if name in running else ended[name]
                log.info("[%5.0f s] %s: %s", now - self.begin, name, ", ".join(filter(None, (state, more))))
