"""One run of an experiment: train unless that is done, then evaluate, in one process (imports alone cost seconds) or each under
torchrun, on as many."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import psutil
import typer

from remedy.checksums import read_json
from remedy.launch.console import command_line, start
from remedy.launch.progress import note_condition
from remedy.processes import end_with_parent
from remedy.settings import UserError, load
from remedy.train.config import DIVERGED, RunConfig

TRAINED = "trained"
EVALUATE = "evaluate.yaml"
"""How a run is evaluated; a trial of a selection has none, and is not."""
CHOSEN = "chosen.json"
"""The settings that a run's variant chose on validation."""


app = command_line()


@app.command()
def main(
    folder: Annotated[Path, typer.Argument(help="holds train.yaml, and evaluate.yaml if it is to be evaluated")],
    name: Annotated[str, typer.Argument(help="what reports call the run")],
    variant: Annotated[str, typer.Option(help="what it shares with the same run of other seeds")] = "",
    processes: Annotated[int, typer.Option(help="that train, and evaluate")] = 1,
    member: Annotated[list[Path], typer.Option(help="the folder of a run that is trained at once with others")] = [],  # noqa: B006
    parent: Annotated[int, typer.Option(help="the process without which this run ends, with a checkpoint")] = 0,
) -> None:
    """Train a run of an experiment unless that is done, then evaluate it."""
    _leave_on_signals()
    if parent:
        end_with_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    if member:
        _train_together(name, member)
        return
    run = load(RunConfig, folder / "train.yaml")
    evaluated = (folder / EVALUATE).exists()
    if not (folder / TRAINED).exists():
        try:
            _train(run, folder, processes)
        except (UserError, SystemExit):
            # Of a trial, that is a result: this setting is not the one to choose.
            if evaluated or not (Path(run.output) / DIVERGED).exists():
                raise
        (folder / TRAINED).touch()
    if evaluated and processes > 1:
        _on_several(processes, "remedy.launch.job", str(folder), name, "--variant", variant)
    elif evaluated:
        evaluate_run(run, folder, name, variant)


def _leave_on_signals() -> None:
    """At a signal that ends a training with a checkpoint, before it has begun and in the evaluation after it as well: leave with the
    status that lets a Slurm job queue again. What is written stays."""
    from remedy.train.stopping import RESUMABLE, SIGNALS

    def stop(number: int, frame: FrameType | None) -> None:
        print(f"stopped: {signal.Signals(number).name}; what is written stays", file=sys.stderr, flush=True)
        sys.exit(RESUMABLE)

    for number in SIGNALS:
        signal.signal(number, stop)


def _train(run: RunConfig, folder: Path, processes: int) -> None:
    if processes > 1 and run.train.total_steps:
        _on_several(processes, "remedy.launch.train", str(folder / "train.yaml"), "--resume")
        return
    from remedy.train.run import train

    with _resumable():
        train(run, resume=True)


def _train_together(name: str, folders: list[Path]) -> None:
    """Train the runs of these folders at once. Those whose loss becomes NaN or infinite are left to their own processes, which say so;
    of a trial that is a result."""
    from remedy.train.stacked import train_stacked

    runs = {folder: load(RunConfig, folder / "train.yaml") for folder in folders}
    lost = {folder: Path(run.output, DIVERGED) for folder, run in runs.items()}
    try:
        with _resumable():
            train_stacked(name, list(runs.values()), resume=True)
    except UserError as error:
        if not any(path.exists() for path in lost.values()):
            raise
        print(error, flush=True)
    for folder, path in lost.items():
        if not path.exists() or not (folder / EVALUATE).exists():
            (folder / TRAINED).touch()


@contextlib.contextmanager
def _resumable() -> Iterator[None]:
    """Around a training: one that a signal ends leaves with the status that says so."""
    from remedy.train.processes import leave
    from remedy.train.stopping import Stopped

    try:
        yield
    except Stopped as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        leave(stopped.status)


def _on_several(processes: int, *command: str) -> None:
    """Run a module under torchrun, as a process of each GPU."""
    from remedy.train.stopping import RESUMABLE, SIGNALS

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    launched = subprocess.Popen([*torchrun, "-m", *command], preexec_fn=_die_with_parent)
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
    """In torchrun, before it is: if this process is killed, so is torchrun, at which its processes end."""
    if sys.platform == "linux":
        from remedy.data_gen.execution.kernel import die_with_parent

        die_with_parent()


def evaluate_run(run: RunConfig, folder: Path, name: str, variant: str) -> None:
    """Evaluate a trained run as its folder says."""
    from remedy.eval.checkpoint import for_checkpoint, load_evaluated
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate
    from remedy.eval.progress import Progress
    from remedy.launch.evaluate import together
    from remedy.train.wandb_runs import log_evaluation

    def note(done: Progress) -> None:
        print(done, flush=True)
        note_condition(folder, done.number, done.of, done.result, done.finished)

    with together() as rank:
        settings = load(EvalConfig, folder / EVALUATE)
        subject = for_checkpoint(run.output, settings, read_json(folder / CHOSEN, "run the experiment again"))
        model, tokenizer = load_evaluated(run.output, settings)
        summary = evaluate(
            model, tokenizer, subject, settings, folder / "evaluation", name, note, variant=variant, rank=rank
        )
        if rank.is_main:
            log_evaluation(run, summary)


if __name__ == "__main__":
    start(app)
