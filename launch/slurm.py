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
from remedy.launch.runner import do, set_out
from remedy.launch.selection import choose
from remedy.processes import module_command
from remedy.settings import UserError

ARRAY = """\
#!/usr/bin/env bash
# The {count} {what} of {where}, one task each; a task that is signalled before its time limit queues again and goes on.
#SBATCH --job-name={name}-{what}
#SBATCH --array={first}-{last}
#SBATCH --time=04:00:00
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
srun --kill-on-bad-exit=0 {run} --job "$SLURM_ARRAY_TASK_ID"
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
#SBATCH --time=00:30:00
#SBATCH --output={folder}/report-%j.log
cd {cwd}
{run} --report-only
"""


def do_job(settings: ExperimentConfig, where: str, number: int) -> None:
    """Do one run in this process; trials are counted before runs.

    Raises:
        UserError: there is no such run, its folder holds a run of other settings, or the trials are not finished.
    """
    tried, jobs = _alone(settings, where)
    if not 0 <= number < len(tried) + len(jobs):
        first = f"{len(tried)} trials and " if tried else ""
        raise UserError(f"--job {number}: {where} has {first}{len(jobs)} runs, counted from 0")
    if tried and number >= len(tried):
        jobs = expand(settings, where, choose(settings, tried))
    set_out(settings, jobs)
    mine = [*tried, *jobs][number]
    check_programs([mine])
    prepare(mine)
    do(folders_of(mine), settings.processes, settings.threads)


def write_scripts(settings: ExperimentConfig, where: str, overrides: Sequence[str], folder: Path) -> None:
    """Write Slurm scripts of trials, runs and report; print how to submit.

    Raises:
        UserError: as `expand`, or seeds are to be stacked.
    """
    tried, jobs = _alone(settings, where)
    check_programs(jobs)
    folder.mkdir(parents=True, exist_ok=True)
    loading = max(job.train.train.dataloader_num_workers for job in jobs)
    facts = {
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
    after = ""
    for script, what, mine, first in (("selection", "trials", tried, 0), ("array", "runs", jobs, len(tried))):
        if mine:
            text = ARRAY.format(**facts, what=what, count=len(mine), first=first, last=first + len(mine) - 1)
            (folder / f"{script}.sbatch").write_text(text, encoding="utf-8")
            print(f"{len(mine)} {what}, {sum(job.is_trained for job in mine)} of them trained. Submit them:")
            print(f"  {what}=$(sbatch --parsable {after}{folder / script}.sbatch)")
            after = f"--dependency=afterok:${what} "
    print(f"and the report after them:\n  sbatch {after}{folder / 'report.sbatch'}")


def _alone(settings: ExperimentConfig, where: str) -> tuple[list[Job], list[Job]]:
    """Return trials and runs; refuse stacked ones."""
    tried, jobs = trials(settings, where), expand(settings, where)
    if stacked := next((job for job in jobs if job.stacked is not None), None):
        raise UserError(
            f"{where}: {stacked.name}: train.stacked {stacked.stacked}: a task of an array is one run, so that nothing is trained at "
            "once: remove it, or use `remedy run`"
        )
    return tried, jobs
