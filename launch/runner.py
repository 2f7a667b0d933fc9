"""Runs of an experiment as processes on this machine, some at a time, and the report over them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from remedy.data_gen.files import replace_file
from remedy.data_gen.owner import owned
from remedy.data_gen.sealed import write_json
from remedy.data_gen.settings import UserError, dump, load
from remedy.launch.experiment import ExperimentConfig, Job, TrainingJob, Trial, expand, trials
from remedy.launch.finished import is_done
from remedy.launch.groups import SELECTION_FOLDER
from remedy.launch.job import CHOSEN, EVALUATE, TRAINED
from remedy.launch.progress import Board, Progress, Watch
from remedy.launch.selection import choose
from remedy.train.config import RunConfig

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
    if tried:
        _run_all(config, tried, f"{len(tried)} trials that choose settings on validation")
        jobs = expand(config, where, choose(config, tried))
    _run_all(config, jobs, f"{len(jobs)} runs")
    return report_all(config, jobs)


def _run_all(config: ExperimentConfig, jobs: Sequence[TrainingJob], what: str) -> None:
    """Do all of these, and raise a UserError if any failed."""
    print(f"{what}, {config.workers} at a time; each writes log.txt in its folder below {config.output}", flush=True)
    watches = {job.name: Watch(job.folder, Path(job.train.output), job.train.train.total_steps) for job in jobs}
    with ThreadPoolExecutor(config.workers) as pool, Board(watches) as board:
        futures = {job.name: pool.submit(_do, job, config) for job in jobs}
        pending = set(futures.values())
        try:
            while pending:
                _, pending = wait(pending, timeout=LOOK_SECONDS)
                board.show({job.name: _progress(job, futures[job.name], watches[job.name]) for job in jobs})
        except BaseException:
            _stop(pool)
            raise
    failed = [f"{name}: {future.result()}" for name, future in futures.items() if future.result()]
    if failed:
        raise UserError("\n".join(failed))


def report_all(config: ExperimentConfig, jobs: list[Job]) -> Path:
    """The report over all runs; returns its page. Runs that are tracked put it on W&B too."""
    from remedy.eval.report.page import report
    from remedy.train.wandb_runs import log_report

    folder = Path(config.output) / "report"
    directories = [job.folder / "evaluation" for job in jobs]
    directories += [
        Path(config.output) / name / SELECTION_FOLDER
        for name, group in config.groups.items()
        if group.select is not None
    ]
    page = report(directories, folder, config.comparisons or None, config.title, config.baselines)
    tracked = [job.train.tracking for job in jobs if job.train.tracking.wandb]
    if tracked:
        log_report(tracked[0], f"{config.name}: report", folder)
    return page


def prepare(job: TrainingJob) -> str:
    """Write a run's settings into its folder; an empty string, or why that cannot be."""
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
    """Whether a file says these settings. Those that it does not name, being newer than the file, had their defaults."""
    try:
        return load(RunConfig, path) == settings
    except UserError:
        return False


def command(job: TrainingJob, processes: int) -> list[str]:
    """What runs a prepared job."""
    words = [sys.executable, "-m", "remedy.launch.job", str(job.folder), job.name, "--processes", str(processes)]
    return [*words, "--variant", job.variant] if job.variant != job.name else words


def environment(config: ExperimentConfig) -> dict[str, str]:
    """The environment variables of a job's process."""
    return {**os.environ, "OMP_NUM_THREADS": str(config.threads), "TQDM_DISABLE": "1"}


_running: dict[str, subprocess.Popen[bytes]] = {}
"""The processes of runs, by name."""


def _stop(pool: ThreadPoolExecutor) -> None:
    """Start no further run; those that train stop after their step, with a checkpoint."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(_running.values()):
        process.terminate()


def _progress(job: TrainingJob, future: Future[str], watch: Watch) -> Progress:
    if future.done():
        problem = future.result()
        return Progress("failed", result=problem) if problem else Progress("done")
    return (
        watch.look(isinstance(job, Job) and (job.folder / TRAINED).exists())
        if future.running()
        else Progress("waiting")
    )


def _do(job: TrainingJob, config: ExperimentConfig) -> str:
    """Run one job in a process of its own; an empty string, or what went wrong."""
    problem = prepare(job)
    if problem or (isinstance(job, Trial) and (job.folder / TRAINED).exists()):
        return problem
    try:
        if isinstance(job, Job) and is_done(job):
            return ""
    except UserError as error:
        return str(error)
    log = job.folder / "log.txt"
    with log.open("w", encoding="utf-8") as file:
        words = [*command(job, config.processes), "--parent", str(os.getpid())]
        with subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment(config)) as process:
            _running[job.name] = process
            code = process.wait()
        del _running[job.name]
    if code == 0:
        return ""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # Of several processes torchrun has the last word, and it is a table.
    said = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "no output")
    return f"failed (exit status {code}; all of it in {log}): {said}"
