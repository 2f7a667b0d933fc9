"""`remedy sweep`: an experiment's runs here, one after another, or as one Slurm array."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from remedy.launch.experiment import ExperimentConfig, expand, trials
from remedy.launch.job import TRAINED
from remedy.launch.runner import environment, plan, prepare, report_all, run, words
from remedy.launch.selection import choose
from remedy.settings import UserError, load

ARRAY = """\
#!/usr/bin/env bash
# The {count} {what} of {where}, one task each; a task that is signalled before its time limit queues again and goes on.
#SBATCH --job-name={name}{suffix}
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
export SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-{cores}}}  # srun takes over what sbatch was asked for from here alone
srun --kill-on-bad-exit=0 {sweep} --job "$SLURM_ARRAY_TASK_ID"
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
{sweep} --report-only
"""


def sweep(
    config: str,
    overrides: Sequence[str],
    slurm: Path | None,
    job: int | None,
    report_only: bool,
    partial: bool = False,
) -> Path | None:
    """Run the sweep and return the report's page, or do one part of it.

    `slurm`: write the scripts of a Slurm array there instead, or of two where settings are selected first. `job`: become the process
    of this one run; trials of a selection are counted first. `report_only`: report over what is there; `partial`: and judge
    recipes of which runs are missing.

    Raises:
        UserError: as `runner.run`; there is no such job, or the trials before it are not finished.
    """
    settings = load(ExperimentConfig, config, overrides)
    if slurm is not None or job is not None:
        _refuse_stacked(settings, config)
    if slurm is not None:
        _write_scripts(settings, config, overrides, slurm)
        return None
    if job is None and not report_only:
        return run(settings, config)
    jobs, tried = expand(settings, config), trials(settings, config)
    count = len(tried) + len(jobs)
    if job is not None and not 0 <= job < count:
        first = f"{len(tried)} trials and " if tried else ""
        raise UserError(f"--job {job}: {config} has {first}{len(jobs)} runs, counted from 0")
    if tried and (job is None or job >= len(tried)):
        jobs = expand(settings, config, choose(settings, tried))
    plan(settings, jobs)
    if job is None:
        return report_all(settings, jobs, partial)
    mine = [*tried, *jobs][job]
    problem = prepare(mine)
    if problem:
        raise UserError(problem)
    command = [sys.executable, "-m", "remedy.launch.job", *words(mine, settings.processes)]
    os.execve(command[0], command, environment(settings))  # so that Slurm's signals reach the training itself


def _refuse_stacked(settings: ExperimentConfig, where: str) -> None:
    if stacked := next((job for job in expand(settings, where) if job.stacked is not None), None):
        raise UserError(
            f"{where}: {stacked.name}: train.stacked {stacked.stacked}: a task of an array is one run, so that nothing is trained at "
            "once: remove it, or use `remedy run`"
        )


def _write_scripts(settings: ExperimentConfig, config: str, overrides: Sequence[str], folder: Path) -> None:
    jobs, tried = expand(settings, config), trials(settings, config)
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "remedy.launch.cli", "sweep", config, *overrides]
    loading = max(job.train.train.dataloader_num_workers for job in jobs)
    facts = {
        "where": config,
        "name": settings.name,
        "processes": settings.processes,
        "cores": settings.processes * (settings.threads + loading),
        "folder": shlex.quote(str(folder)),
        "cwd": shlex.quote(os.getcwd()),
        "sweep": shlex.join(words),
    }
    runs = {"what": "runs", "count": len(jobs), "first": len(tried), "last": len(tried) + len(jobs) - 1, "suffix": ""}
    (folder / "array.sbatch").write_text(ARRAY.format(**facts, **runs), encoding="utf-8")
    (folder / "report.sbatch").write_text(REPORT.format(**facts), encoding="utf-8")
    done = sum((job.folder / TRAINED).exists() for job in jobs)
    after = ""
    if tried:
        first = {"what": "trials", "count": len(tried), "first": 0, "last": len(tried) - 1, "suffix": "-selection"}
        (folder / "selection.sbatch").write_text(ARRAY.format(**facts, **first), encoding="utf-8")
        ready = sum((trial.folder / TRAINED).exists() for trial in tried)
        after = "--dependency=afterok:$trials "
        print(
            f"{len(tried)} trials ({ready} of them done) choose settings for {len(jobs)} runs ({done} of them trained)."
        )
        print("Submit the trials, the runs after them, and the report at the end:")
        print(f"  trials=$(sbatch --parsable {folder / 'selection.sbatch'})")
    else:
        print(f"{len(jobs)} runs ({done} of them trained). Submit them, and the report after them:")
    print(f"  id=$(sbatch --parsable {after}{folder / 'array.sbatch'})")
    print(f"  sbatch --dependency=afterok:$id {folder / 'report.sbatch'}")
