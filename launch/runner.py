"""Processes that do an experiment's jobs: trials, runs, report.

Each job has a process that trains and evaluates as its folder says, unless that is done. With several `processes` it
starts torchrun.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import psutil
import torch

from remedy.checksums import read_json
from remedy.eval.records.folder import REQUEST
from remedy.eval.report.planned import PLAN, write_plan, write_runs
from remedy.launch.console import reporting
from remedy.launch.experiment import SELECTION_FOLDER, ExperimentConfig
from remedy.launch.jobs import (
    EVALUATE,
    EVALUATION,
    RUN,
    TRAIN,
    Job,
    expand,
    folders_of,
    is_done,
    prepare,
    stacks,
    trials,
    was_trained,
)
from remedy.launch.plan import check_comparisons, check_programs, comparisons_of
from remedy.launch.selection import choose
from remedy.launch.train import resumable
from remedy.owner import owned
from remedy.processes import module_command, redirect_output
from remedy.settings import UserError, load
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.processes import RESUMABLE, SIGNALS

LOG = "log.txt"
LOOK_SECONDS = 0.5
QUIET_SECONDS = 30.0
"""Seconds between two lines about a running job."""
IMPORTED = ("train.run", "eval.checkpoint", "eval.evaluate", "launch.evaluate", "launch.runner")
"""Modules that a run's process needs."""
log = logging.getLogger(__name__)


def run(config: ExperimentConfig, where: str) -> Path:
    """Do every run that is not done, and write the report; return its page.

    Raises:
        UserError: a run failed (the others are finished first), its folder holds a run of other settings, or another
            process runs an experiment into the same output.
    """
    with owned(Path(config.output)):
        trial_jobs, jobs = trials(config, where), expand(config, where)
        check_programs([*trial_jobs, *jobs])
        check_comparisons(config, jobs)
        record_plan(config, jobs)
        if trial_jobs:
            _do(config, trial_jobs, f"{len(trial_jobs)} trials that choose settings on validation")
            jobs = expand(config, where, choose(config, trial_jobs))
            list_runs(config, jobs)  # the choices may change which runs are one variant
        _do(config, jobs, f"{len(jobs)} runs")
        return report_all(config, jobs)


def report_done(config: ExperimentConfig, where: str, partial: bool = False) -> Path:
    """Report over finished runs.

    Raises:
        UserError: as `report_all`, or trials are not finished.
    """
    trial_jobs = trials(config, where)
    jobs = expand(config, where, choose(config, trial_jobs) if trial_jobs else None)
    list_runs(config, jobs)
    return report_all(config, jobs, partial)


def record_plan(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    """Write down the experiment's runs and, before any evaluation, its comparisons."""
    list_runs(config, jobs)
    folder = Path(config.output)
    # A plan that is written after results were seen is none.
    if (folder / PLAN).exists() or not any((job.folder / EVALUATION / REQUEST).exists() for job in jobs):
        write_plan(folder, comparisons_of(config, jobs), {job.name: job.train.train.seed for job in jobs})


def list_runs(config: ExperimentConfig, jobs: Sequence[Job]) -> None:
    folder = Path(config.output)
    write_runs(folder, {str(job.folder.relative_to(folder)): {"run": job.name, "variant": job.variant} for job in jobs})


def report_all(config: ExperimentConfig, jobs: list[Job], partial: bool = False) -> Path:
    """Write the report over all evaluated runs; return its page.

    Tracked runs log it to W&B. `partial`: judge recipes with missing runs.

    Raises:
        UserError: no run is evaluated, or as `report`.
    """
    from remedy.eval.report.page import report
    from remedy.train.tracking import log_report

    output = Path(config.output)
    directories = [job.folder / EVALUATION for job in jobs]
    directories = [folder for folder in directories if (folder / REQUEST).exists()] or directories
    directories += [output / name / SELECTION_FOLDER for name, group in config.groups.items() if group.select]
    page = report(
        directories, output / "report", config.comparisons or None, config.title, config.baselines, partial=partial
    )
    if tracked := [job.train.tracking for job in jobs if job.train.tracking.wandb]:
        log_report(tracked[0], f"{config.name}: report", output / "report")
    return page


def _do(config: ExperimentConfig, jobs: Sequence[Job], heading: str) -> None:
    if stacked := stacks(jobs):
        count = sum(len(stack.members) for stack in stacked)
        _do_all(config, stacked, f"{count} seeds in {len(stacked)} trainings")
    _do_all(config, jobs, heading)


def _do_all(config: ExperimentConfig, jobs: Sequence[Job], heading: str) -> None:
    print(f"{heading}, {config.workers} at a time; each writes {LOG} in its folder below {config.output}", flush=True)
    # The longest first, so that no worker is left alone with one at the end.
    waiting = sorted(jobs, key=lambda job: -job.train.train.total_steps * job.train.train.batch_size)
    running: dict[str, tuple[Job, BaseProcess]] = {}
    ended: dict[str, str] = {}
    context, board = process_context(*IMPORTED), Board(job.name for job in jobs)
    former_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as at an interrupt
    try:
        while len(ended) < len(jobs):
            if waiting and len(running) < config.workers:
                job = waiting.pop(0)
                try:
                    prepare(job)
                    if is_done(job):
                        ended[job.name] = ""
                    else:
                        arguments = (folders_of(job), job.folder / LOG, config.processes, config.threads)
                        process = context.Process(target=run_job, args=arguments, name=job.name)
                        process.start()
                        running[job.name] = job, process
                except UserError as error:
                    ended[job.name] = str(error)
            else:
                wait([process.sentinel for _, process in running.values()], LOOK_SECONDS)
                for name, (job, process) in list(running.items()):
                    if (status := process.exitcode) is not None:
                        del running[name]
                        path = job.folder / LOG
                        # torchrun's own last line is part of a table.
                        last = last_line(path, "error: ") or last_line(path) or "no output"
                        ended[name] = f"failed (exit status {status}; all of it in {path}): {last}" if status else ""
            board.show(ended, {name: job.folder / LOG for name, (job, _) in running.items()})
    finally:  # at an interrupt each process saves a checkpoint
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()
        signal.signal(signal.SIGTERM, former_handler)
    if failed := [f"{job.name}: {ended[job.name]}" for job in jobs if ended[job.name]]:
        raise UserError("\n".join(failed))


def process_context(*modules: str) -> Any:
    """Choose how processes start: forked from one that has imported `modules`."""
    os.environ["TQDM_DISABLE"] = "1"  # libraries' bars would fill the logs, whose last lines are shown
    # Only Linux's libraries survive a fork, and CUDA does not.
    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"remedy.{name}" for name in modules])
    return context


def last_line(path: Path, start: str = "") -> str:
    """Return a log's last line that begins with `start`, or ""."""
    if not path.exists():
        return ""
    with path.open("rb") as file:  # its end alone, since it is read again and again
        file.seek(max(0, file.seek(0, 2) - (1 << 14)))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line for line in reversed(lines) if line.strip() and line.startswith(start)), "")


class Board:
    """Status lines of all runs, at changes and now and then."""

    def __init__(self, names: Iterable[str]) -> None:
        self.begin = time.monotonic()
        self.states: dict[str, tuple[str, float]] = dict.fromkeys(names, ("waiting", self.begin))

    def show(self, ended: Mapping[str, str], running: Mapping[str, Path]) -> None:
        """Print changes. `ended`: errors or ""; `running`: logs to quote."""
        now = time.monotonic()
        for name in [*ended, *running]:
            last_state, since = self.states[name]
            state = "running" if name in running else "failed" if ended[name] else "done"
            if state != last_state or (state == "running" and now - since >= QUIET_SECONDS):
                self.states[name] = state, now
                details = last_line(running[name]) if name in running else ended[name]
                log.info("[%5.0f s] %s: %s", now - self.begin, name, ", ".join(filter(None, (state, details))))


def run_job(folders: Sequence[Path], log: Path, processes: int, threads: int) -> None:
    """Do the work of an experiment's process, with its output in `log`.

    It ends with the experiment; a training then leaves a checkpoint.
    """
    redirect_output(log)
    threading.Thread(target=_end_with_experiment, daemon=True).start()
    with reporting():
        do(folders, processes, threads)


def _end_with_experiment() -> None:
    experiment = multiprocessing.parent_process()
    assert experiment is not None
    experiment.join()
    os.kill(os.getpid(), signal.SIGTERM)


def do(folders: Sequence[Path], processes: int, threads: int) -> None:
    """Train a folder's run and evaluate it, unless done; stack several folders' runs.

    Raises:
        SystemExit: a signal ended it; the status lets a Slurm job requeue.
    """
    torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for processes of torchrun
    for number in SIGNALS:  # for the times before and after training, which has its own handlers
        signal.signal(number, _leave)
    if len(folders) > 1:
        _train_together(folders)
        return
    (folder,) = folders
    run, evaluated = load(RunConfig, folder / TRAIN), (folder / EVALUATE).exists()
    if not was_trained(Path(run.output), evaluated):
        try:
            _train(run, folder, processes)
        except (UserError, SystemExit):
            # For a trial, divergence is a result.
            if not was_trained(Path(run.output), evaluated):
                raise
    if evaluated and processes > 1:
        _on_several(processes, "remedy.launch.runner", str(folder))
    elif evaluated:
        evaluate_run(folder)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    print(f"stopped: {signal.Signals(number).name}; what is written stays", file=sys.stderr, flush=True)
    sys.exit(RESUMABLE)


def _train(run: RunConfig, folder: Path, processes: int) -> None:
    if processes > 1 and run.train.total_steps:
        _on_several(processes, "remedy.launch.train", str(folder / TRAIN), "--resume")
        return
    from remedy.train.run import train

    with resumable():
        train(run, resume=True)


def _train_together(folders: Sequence[Path]) -> None:
    """Train these folders' runs at once; their own processes report divergence."""
    from remedy.train.stacked import train_stacked

    runs = [load(RunConfig, folder / TRAIN) for folder in folders]
    try:
        with resumable():
            train_stacked(f"{runs[0].name} and {len(runs) - 1} more", runs, resume=True)
    except UserError as error:
        if not any(Path(run.output, DIVERGED).exists() for run in runs):
            raise
        print(error, flush=True)


def _on_several(processes: int, module: str, *arguments: str) -> None:
    """Run a module under torchrun, one process per GPU, until this process ends."""
    # --no-python, since torchrun's own command would search the working folder first.
    options = ["--standalone", "--nproc_per_node", str(processes), "--no-python"]
    torchrun = module_command("torch.distributed.run", *options, *module_command(module, *arguments))
    # If this process is killed, no handler tells torchrun, but the kernel does.
    launched = subprocess.Popen(torchrun, preexec_fn=_die_with_parent)
    signals: list[int] = []

    # To torchrun's processes: it dies of SIGUSR1 itself, and allows them 30 s after SIGTERM.
    def pass_on(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        launcher = psutil.Process(launched.pid)
        for process in launcher.children() or [launcher]:
            process.send_signal(number)

    handlers = {number: signal.signal(number, pass_on) for number in SIGNALS}
    code = launched.wait()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if code:
        sys.exit(RESUMABLE if signals else code)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        from remedy.data_gen.execution.kernel import DIE_WITH_PARENT, control

        control(*DIE_WITH_PARENT)


def evaluate_run(folder: Path) -> None:
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate_checkpoint
    from remedy.launch.evaluate import this_rank
    from remedy.train.tracking import log_evaluation

    run, facts = load(RunConfig, folder / TRAIN), read_json(folder / RUN, "run the experiment again")
    variant = "" if facts["variant"] == facts["name"] else facts["variant"]
    about = {"name": facts["name"], "variant": variant, "chosen": facts["chosen"], "own": run.model_dump(mode="json")}
    with this_rank() as rank:
        settings = load(EvalConfig, folder / EVALUATE)
        summary = evaluate_checkpoint(run.output, settings, folder / EVALUATION, rank=rank, **about)
        if rank.is_main:
            log_evaluation(run, summary)


if __name__ == "__main__":  # under torchrun
    with reporting():
        evaluate_run(Path(sys.argv[1]))
