"""`remedy sweep`: an experiment's runs here, one after another, or as one Slurm array."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from remedy.data_gen.settings import UserError, load
from remedy.launch.experiment import ExperimentConfig, expand
from remedy.launch.job import TRAINED
from remedy.launch.runner import command, prepare, report_all, run

ARRAY = """\
#!/usr/bin/env bash
# The {count} runs of {where}, one task each; a task that is signalled before its time limit queues again and goes on.
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --time=04:00:00
#SBATCH --gpus-per-task={processes}
#SBATCH --ntasks=1
#SBATCH --signal=USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={folder}/array-%A_%a.log
set -uo pipefail
cd {cwd}
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


def sweep(config: str, overrides: Sequence[str], slurm: Path | None, job: int | None, report_only: bool) -> Path | None:
    """Run the sweep and return the report's page, or do one part of it.

    `slurm`: write the scripts of a Slurm array there instead. `job`: become the process of this one run. `report_only`: report
    over what is there.

    Raises:
        UserError: as `experiment.run`; or there is no such job.
    """
    settings = load(ExperimentConfig, config, overrides)
    if slurm is not None:
        _write_scripts(settings, config, overrides, slurm)
        return None
    jobs = expand(settings, config)
    if report_only:
        return report_all(settings, jobs)
    if job is None:
        return run(settings, config)
    if not 0 <= job < len(jobs):
        raise UserError(f"--job {job}: {config} has {len(jobs)} runs, counted from 0")
    problem = prepare(jobs[job])
    if problem:
        raise UserError(problem)
    os.environ.setdefault("TQDM_DISABLE", "1")
    words = command(jobs[job], settings.processes)
    os.execv(words[0], words)  # so that Slurm's signals reach the training itself


def _write_scripts(settings: ExperimentConfig, config: str, overrides: Sequence[str], folder: Path) -> None:
    jobs = expand(settings, config)
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "remedy.launch.cli", "sweep", config, *overrides]
    facts = {
        "count": len(jobs),
        "last": len(jobs) - 1,
        "where": config,
        "name": settings.name,
        "processes": settings.processes,
        "folder": shlex.quote(str(folder)),
        "cwd": shlex.quote(os.getcwd()),
        "sweep": shlex.join(words),
    }
    (folder / "array.sbatch").write_text(ARRAY.format(**facts), encoding="utf-8")
    (folder / "report.sbatch").write_text(REPORT.format(**facts), encoding="utf-8")
    done = sum((job.folder / TRAINED).exists() for job in jobs)
    print(f"{len(jobs)} runs ({done} of them trained). Submit them, and the report after them:")
    print(f"  id=$(sbatch --parsable {folder / 'array.sbatch'})")
    print(f"  sbatch --dependency=afterok:$id {folder / 'report.sbatch'}")
