"""Runs of an experiment as processes on this machine, some at a time, and the report over them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from remedy.checksums import write_json
from remedy.eval.records.folder import REQUEST
from remedy.eval.report.planned import EVALUATION, write_plan
from remedy.files import replace_file
from remedy.launch.completed_jobs import is_done
from remedy.launch.experiment import ExperimentConfig, Job, TrainingJob, Trial, conditions, expand, trials
from remedy.launch.fork_server import ForkServer
from remedy.launch.groups import SELECTION_FOLDER
from remedy.launch.job import CHOSEN, EVALUATE, TRAINED
from remedy.launch.progress import Board, Progress, Watch
from remedy.launch.selection import choose
from remedy.launch.stacks import Stack, stacks
from remedy.launch.train import given_programs
from remedy.owner import owned
from remedy.settings import UserError, dump, load
from remedy.train.config import RunConfig

LOG = "log.txt"
LOOK_SECONDS = 0.5


def run(config: ExperimentConfig, where: str) -> Path:
    """Train and evaluate every run, `workers` at a time, skipping what is done, and write the report; returns its page.

    Raises:
        UserError: a run failed (the others are finished first; the message names the log), its folder holds a run of other
            settings, or another process runs an experiment into the same output.
    """
    with owned(Path(config.output)):
        return _run(config, where)


def _run(config: ExperimentConfig, where: str) -> Path:
    jobs, tried = expand(config, where), trials(config, where)
    check_programs([*tried, *jobs])
    plan(config, jobs)
    with ForkServer(environment(config)) as server:
        if tried:
            _stacked_first(config, tried, f"{len(tried)} trials that choose settings on validation", server)
            jobs = expand(config, where, choose(config, tried))
            plan(config, jobs)  # which runs are one variant may hang on what was chosen
        _stacked_first(config, jobs, f"{len(jobs)} runs", server)
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


def check_programs(jobs: Sequence[TrainingJob]) -> None:
    """Say of given programs how many each split has, before anything of what is still to be trained begins.

    Raises:
        ConfigError: training, validation or a diagnostic has none, or a diagnostic does not fit its data.
    """
    said: dict[str, None] = {}
    for job in jobs:
        if not (job.folder / TRAINED).exists():
            said |= dict.fromkeys(given_programs(job.train))
            if isinstance(job, Job):
                conditions(job)
    for line in said:
        print(line, flush=True)


def plan(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Write down which runs the experiment consists of."""
    folder = Path(config.output)
    runs = {str(job.folder.relative_to(folder)): {"run": job.name, "variant": job.variant} for job in jobs}
    write_plan(folder, runs)


def _stacked_first(config: ExperimentConfig, jobs: Sequence[TrainingJob], what: str, server: ForkServer) -> None:
    """Train those that are trained at once, then do all."""
    together = stacks(jobs)
    if together:
        count = sum(len(one.members) for one in together)
        _run_all(config, together, f"{count} seeds in {len(together)} trainings", server)
    _run_all(config, jobs, what, server)


def _run_all(config: ExperimentConfig, jobs: Sequence[TrainingJob], what: str, server: ForkServer) -> None:
    """Do all of these, and raise a UserError if any failed."""
    print(f"{what}, {config.workers} at a time; each writes log.txt in its folder below {config.output}", flush=True)
    named = {job.name: job for job in jobs}
    watches = {job.name: Watch(job.folder, Path(job.train.output), job.train.train.total_steps) for job in jobs}
    waiting, begun, ended = list(jobs), dict[str, float](), dict[str, str]()
    took: dict[str, float] = {}
    with Board(watches) as board:
        while len(ended) < len(jobs):
            if waiting and len(begun) < config.workers:
                job = longest(waiting, took)
                waiting.remove(job)
                found = _nothing_to_do(job)
                if found is None:
                    begun[job.name] = time.monotonic()
                    server.begin(job.name, words(job, config.processes), job.folder / LOG)
                else:
                    ended[job.name] = found
            else:
                for name, status in server.ended(LOOK_SECONDS):
                    ended[name] = _problem(named[name], status)
                    took[named[name].variant] = time.monotonic() - begun.pop(name)
            board.show({name: _progress(job, begun, ended, watches[name]) for name, job in named.items()})
    failed = [f"{name}: {ended[name]}" for name in named if ended[name]]
    if failed:
        raise UserError("\n".join(failed))


def longest(waiting: Sequence[TrainingJob], took: Mapping[str, float]) -> TrainingJob:
    """The run to begin next, so that no long one is left for the end: of variants of which none has ended before, then that
    whose variant took longest (`took`, seconds); of equals that of most rows, then the first."""
    return max(
        waiting,
        key=lambda job: (took.get(job.variant, math.inf), job.train.train.total_steps * job.train.train.batch_size),
    )


def report_all(config: ExperimentConfig, jobs: list[Job], partial: bool = False) -> Path:
    """The report over all runs that are evaluated; returns its page. Runs that are tracked put it on W&B too. `partial`: judge recipes
    of which runs are missing.

    Raises:
        UserError: no run is evaluated, or as `report`.
    """
    from remedy.eval.report.page import report
    from remedy.train.wandb_runs import log_report

    folder = Path(config.output) / "report"
    directories = [job.folder / EVALUATION for job in jobs]
    directories = [one for one in directories if (one / REQUEST).exists()] or directories
    directories += [
        Path(config.output) / name / SELECTION_FOLDER
        for name, group in config.groups.items()
        if group.select is not None
    ]
    page = report(directories, folder, config.comparisons or None, config.title, config.baselines, partial=partial)
    tracked = [job.train.tracking for job in jobs if job.train.tracking.wandb]
    if tracked:
        log_report(tracked[0], f"{config.name}: report", folder)
    return page


def prepare(job: TrainingJob) -> str:
    """Write a run's settings into its folder; an empty string, or why that cannot be."""
    if isinstance(job, Stack) and (problem := next(filter(None, map(prepare, job.members)), "")):
        return problem
    job.folder.mkdir(parents=True, exist_ok=True)
    settings, text = job.folder / "train.yaml", dump(job.train)
    if not settings.exists():
        replace_file(settings, lambda partial: partial.write_text(text, encoding="utf-8"))
    elif not _says(settings, job.train):
        return f"{job.folder} holds a run of other settings; delete it or choose another output"
    if isinstance(job, Job):
        text = dump(job.evaluate)
        replace_file(job.folder / EVALUATE, lambda partial: partial.write_text(text, encoding="utf-8"))
        write_json(job.folder / CHOSEN, job.chosen)
    return ""


def _says(path: Path, settings: RunConfig) -> bool:
    """Say if a file says these settings. Those that it does not name, being newer than the file, had their defaults."""
    try:
        return load(RunConfig, path) == settings
    except UserError:
        return False


def words(job: TrainingJob, processes: int) -> list[str]:
    """Return what `remedy.launch.job` is told to run a prepared job."""
    said = [str(job.folder), job.name, "--processes", str(processes)]
    if isinstance(job, Stack):
        return [*said, *(word for member in job.members for word in ("--member", str(member.folder)))]
    return [*said, "--variant", job.variant] if job.variant != job.name else said


def environment(config: ExperimentConfig) -> dict[str, str]:
    """The environment variables of a job's process."""
    return {**os.environ, "OMP_NUM_THREADS": str(config.threads), "TQDM_DISABLE": "1"}


def _progress(job: TrainingJob, begun: Container[str], ended: Mapping[str, str], watch: Watch) -> Progress:
    if job.name in ended:
        problem = ended[job.name]
        return Progress("failed", result=problem) if problem else Progress("done")
    if job.name not in begun:
        return Progress("waiting")
    return watch.look(isinstance(job, Job) and (job.folder / TRAINED).exists())


def _nothing_to_do(job: TrainingJob) -> str | None:
    """Prepare a job: None if it is then to be run, an empty string if it is done, or why it cannot be run."""
    problem = prepare(job)
    if problem or (isinstance(job, Trial) and (job.folder / TRAINED).exists()):
        return problem
    try:
        return "" if isinstance(job, Job) and is_done(job) else None
    except UserError as error:
        return str(error)


def _problem(job: TrainingJob, status: int) -> str:
    """Return what went wrong in a run's process; an empty string if nothing did."""
    if not status:
        return ""
    log = job.folder / LOG
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # Of several processes torchrun has the last word, and it is a table.
    said = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "no output")
    return f"failed (exit status {status}; all of it in {log}): {said}"
