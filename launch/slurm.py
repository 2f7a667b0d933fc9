"""`remedy run --slurm`: runs as a Slurm array, then the report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from remedy.files import file_name
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.jobs import Job, expand, folders_of, prepare, trials
from remedy.launch.plan import check_programs
from remedy.launch.runner import do, record_plan
from remedy.launch.selection import choose
from remedy.processes import module_command
from remedy.settings import UserError

# Status 75 is `train.processes.RESUMABLE`: USR1, 180 s before the time limit, made the task save a checkpoint.
ARRAY = """\
#!/usr/bin/env bash
# The {count} {what} of {where}, one task each; a task that is signalled before its time limit queues again and goes on.
#SBATCH --job-name={name}-{what}
#SBATCH --array={first}-{last}
{options}
#SBATCH --gpus-per-task={processes}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cores}
#SBATCH --signal=USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={folder}/array-%A_%a.log
set -uo pipefail
cd {cwd}
export OMP_NUM_THREADS={threads} TQDM_DISABLE=1
export SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-{cores}}}  # srun takes over what sbatch was asked for from here alone
# Each attempt has a log of its own.
attempt={folder}/array-${{SLURM_ARRAY_JOB_ID:-0}}_$SLURM_ARRAY_TASK_ID-attempt-${{SLURM_RESTART_COUNT:-0}}.log
srun --output="$attempt" --kill-on-bad-exit=0 {run} --job "$SLURM_ARRAY_TASK_ID"
status=$?
if [ "$status" -eq 75 ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
    exit 0
fi
exit "$status"
"""
REPORT = """\
#!/usr/bin/env bash
# The report over all runs of {where}.
#SBATCH --job-name={name}-report
{report_options}
#SBATCH --output={folder}/report-%j.log
cd {cwd}
{run} --report-only
"""


def do_job(settings: ExperimentConfig, where: str, number: int) -> None:
    """Do one run in this process; trials are counted before runs.

    Raises:
        UserError: there is no such run, its folder holds a run of other settings, or the trials are not finished.
    """
    trial_jobs, jobs = _unstacked_jobs(settings, where)
    if not 0 <= number < len(trial_jobs) + len(jobs):
        first = f"{len(trial_jobs)} trials and " if trial_jobs else ""
        raise UserError(f"--job {number}: {where} has {first}{len(jobs)} runs, counted from 0")
    if trial_jobs and number >= len(trial_jobs):
        jobs = expand(settings, where, choose(settings, trial_jobs))
    record_plan(settings, jobs)
    job = [*trial_jobs, *jobs][number]
    check_programs([job])
    prepare(job)
    do(folders_of(job), settings.processes, settings.threads)


def write_scripts(settings: ExperimentConfig, where: str, overrides: Sequence[str], folder: Path) -> None:
    """Write Slurm scripts of trials, runs and report; print how to submit.

    Raises:
        UserError: as `expand`, or seeds are to be stacked.
    """
    trial_jobs, jobs = _unstacked_jobs(settings, where)
    check_programs(jobs)
    folder.mkdir(parents=True, exist_ok=True)
    loading = max(job.train.train.dataloader_num_workers for job in jobs)
    facts = {
        "options": settings.slurm.options(),
        "report_options": settings.slurm.model_copy(update={"time": "00:30:00"}).options(),
        "where": where,
        "name": file_name(settings.name),
        "processes": settings.processes,
        "threads": settings.threads,
        "cores": settings.processes * (settings.threads + loading),
        "folder": shlex.quote(str(folder)),
        "cwd": shlex.quote(os.getcwd()),
        "run": shlex.join(module_command("remedy.launch.cli", "run", where, *overrides)),
    }
    (folder / "report.sbatch").write_text(REPORT.format(**facts), encoding="utf-8")
    dependency = ""
    for script, what, jobs_of_script, first in (
        ("selection", "trials", trial_jobs, 0),
        ("array", "runs", jobs, len(trial_jobs)),
    ):
        if jobs_of_script:
            text = ARRAY.format(
                **facts, what=what, count=len(jobs_of_script), first=first, last=first + len(jobs_of_script) - 1
            )
            (folder / f"{script}.sbatch").write_text(text, encoding="utf-8")
            print(
                f"{len(jobs_of_script)} {what}, {sum(job.is_trained for job in jobs_of_script)} of them trained. Submit them:"
            )
            print(f"  {what}=$(sbatch --parsable {dependency}{folder / script}.sbatch)")
            dependency = f"--dependency=afterok:${what} "
    print(f"and the report after them:\n  sbatch {dependency}{folder / 'report.sbatch'}")


def _unstacked_jobs(settings: ExperimentConfig, where: str) -> tuple[list[Job], list[Job]]:
    trial_jobs, jobs = trials(settings, where), expand(settings, where)
    if stacked := next((job for job in jobs if job.stacked is not None), None):
        raise UserError(
            f"{where}: {stacked.name}: train.stacked {stacked.stacked}: a task of an array is one run, so that nothing is trained at "
            "once: remove it, or use `remedy run`"
        )
    return trial_jobs, jobs
