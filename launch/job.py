"""The process of a run of an experiment: train unless that is done, then evaluate, in one process (imports alone cost seconds) or each
under torchrun, on as many.

What it does is in the run's folder: `train.yaml`, `run.json` and, of a run that is evaluated, `evaluate.yaml`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psutil

from remedy.checksums import read_json, write_json
from remedy.files import write_text
from remedy.launch.console import reporting
from remedy.launch.jobs import Job, was_trained
from remedy.launch.train import resumable
from remedy.processes import module_command
from remedy.settings import UserError, dump, load, load_stored
from remedy.train.config import DIVERGED, RunConfig

RUN, TRAIN, EVALUATE, EVALUATION = "run.json", "train.yaml", "evaluate.yaml", "evaluation"
_CURE = "run the experiment again"


def prepare(job: Job) -> None:
    """Write what a run's process reads into its folder.

    Raises:
        UserError: the folder holds a run of other settings.
    """
    for member in job.members:
        prepare(member)
    job.folder.mkdir(parents=True, exist_ok=True)
    if job.members:
        return
    settings = job.folder / TRAIN
    if settings.exists() and not _says(settings, job.train):
        raise UserError(f"{job.folder} holds a run of other settings; delete it or choose another output")
    # Whatever lay there: its process takes these for the user's, as they now are.
    write_text(settings, dump(job.train))
    write_json(job.folder / RUN, {"name": job.name, "variant": job.variant, "chosen": job.chosen})
    if job.evaluate is not None:
        write_text(job.folder / EVALUATE, dump(job.evaluate))
    else:
        (job.folder / EVALUATE).unlink(missing_ok=True)


def _says(path: Path, settings: RunConfig) -> bool:
    """Say if a file says these settings. Those that it does not name, being newer than the file, had their defaults."""
    try:
        return load_stored(RunConfig, path).changed({"plugins": settings.plugins}) == settings
    except UserError:
        return False


def folders_of(job: Job) -> list[Path]:
    """Name the folders that a prepared job's process is told: its own, or those of the runs that are trained at once."""
    return [member.folder for member in job.members] or [job.folder]


def begun(folders: Sequence[Path], log: Path, processes: int, threads: int) -> None:
    """Do the work of a process that an experiment started: all that it prints goes to `log`, and it ends with the experiment, however
    that ends; a training then leaves a checkpoint."""
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    threading.Thread(target=_end_with_experiment, daemon=True).start()
    with reporting():
        do(folders, processes, threads)


def _end_with_experiment() -> None:
    experiment = multiprocessing.parent_process()
    assert experiment is not None
    experiment.join()
    os.kill(os.getpid(), signal.SIGTERM)


def do(folders: Sequence[Path], processes: int, threads: int) -> None:
    """Train the run of a folder unless that is done, then evaluate it; of several folders, train their runs at once.

    Raises:
        UserError: training or evaluation failed.
        SystemExit: a signal ended it; with the status that lets a Slurm job queue again.
    """
    import torch

    from remedy.train.processes import SIGNALS

    torch.set_num_threads(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    for number in SIGNALS:  # before training begins, and in the evaluation after it
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
            # Of a trial, that is a result: this setting is not the one to choose.
            if not was_trained(Path(run.output), evaluated):
                raise
    if evaluated and processes > 1:
        _on_several(processes, "remedy.launch.job", str(folder))
    elif evaluated:
        evaluate_run(folder)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    from remedy.train.processes import RESUMABLE

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
    """Train the runs of these folders at once. Those whose loss becomes NaN or infinite are left to their own processes."""
    from remedy.train.stacked import train_stacked

    runs = [load(RunConfig, folder / TRAIN) for folder in folders]
    try:
        with resumable():
            train_stacked(f"{runs[0].name} and {len(runs) - 1} more", runs, resume=True)
    except UserError as error:
        if not any(Path(run.output, DIVERGED).exists() for run in runs):
            raise
        print(error, flush=True)


def _on_several(processes: int, module: str, *words: str) -> None:
    """Run a module under torchrun, as a process of each GPU. If this process is killed, so is torchrun, at which its processes end."""
    from remedy.train.processes import RESUMABLE, SIGNALS

    # Its own way to start Python would let the working folder come first in the search path.
    options = ["--standalone", "--nproc_per_node", str(processes), "--no-python"]
    torchrun = module_command("torch.distributed.run", *options, *module_command(module, *words))
    launched = subprocess.Popen(torchrun, preexec_fn=_die_with_parent)
    passed_on: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        """To the processes themselves: torchrun would die of one signal, and give them 30 seconds at the other."""
        passed_on.append(number)
        launcher = psutil.Process(launched.pid)
        for process in launcher.children() or [launcher]:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    code = launched.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    if code:
        sys.exit(RESUMABLE if passed_on else code)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        from remedy.data_gen.execution.kernel import DIE_WITH_PARENT, control

        control(*DIE_WITH_PARENT)


def evaluate_run(folder: Path) -> None:
    """Evaluate a trained run as its folder says."""
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate_checkpoint
    from remedy.launch.evaluate import together
    from remedy.train.tracking import log_evaluation

    run, about = load(RunConfig, folder / TRAIN), read_json(folder / RUN, _CURE)
    name, variant = about["name"], "" if about["variant"] == about["name"] else about["variant"]
    with together() as rank:
        settings = load(EvalConfig, folder / EVALUATE)
        out, own = folder / EVALUATION, run.model_dump(mode="json")
        summary = evaluate_checkpoint(
            run.output, settings, out, name, rank=rank, variant=variant, chosen=about["chosen"], own=own
        )
        if rank.is_main:
            log_evaluation(run, summary)


if __name__ == "__main__":  # under torchrun
    with reporting():
        evaluate_run(Path(sys.argv[1]))
