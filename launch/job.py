"""One run of an experiment: train unless that is done, then evaluate, in one process (imports alone cost seconds) or with the
training under torchrun."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import psutil

from remedy.data_gen.settings import UserError, load
from remedy.train.config import RunConfig

TRAINED = "trained"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="holds train.yaml and evaluate.yaml")
    parser.add_argument("name", help="what reports call the run")
    parser.add_argument("--variant", default="", help="what it shares with the same run of other seeds")
    parser.add_argument("--processes", type=int, default=1, help="that train")
    args = parser.parse_args()
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    try:
        run = load(RunConfig, args.folder / "train.yaml")
        if not (args.folder / TRAINED).exists():
            _train(run, args.folder, args.processes)
            (args.folder / TRAINED).touch()
        _evaluate(run, args.folder, args.name, args.variant)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _train(run: RunConfig, folder: Path, processes: int) -> None:
    if processes > 1:
        _train_on_several(folder, processes)
        return
    from remedy.train.run import finish, train
    from remedy.train.stopping import RESUMABLE, Stopped

    try:
        train(run, resume=True)
    except Stopped as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        finish(RESUMABLE)


def _train_on_several(folder: Path, processes: int) -> None:
    from remedy.train.stopping import RESUMABLE, SIGNALS

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    launched = subprocess.Popen([*torchrun, "-m", "remedy.launch.train", str(folder / "train.yaml"), "--resume"])
    passed_on: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        """To the training processes themselves: torchrun would die of one signal, and give them 30 seconds at the other."""
        passed_on.append(number)
        for worker in psutil.Process(launched.pid).children():
            worker.send_signal(number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    code = launched.wait()
    if code:
        sys.exit(RESUMABLE if passed_on else code)


def _evaluate(run: RunConfig, folder: Path, name: str, variant: str) -> None:
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate, for_checkpoint
    from remedy.models.loading import load_checkpoint
    from remedy.train.tracking import log_evaluation

    data, settings = for_checkpoint(run.output, load(EvalConfig, folder / "evaluate.yaml"))
    model, tokenizer = load_checkpoint(run.output)
    out = folder / "evaluation"
    summary = evaluate(model, tokenizer, data, settings, out, name, lambda m: print(m, flush=True), variant)
    if run.tracking.wandb:
        log_evaluation(run, summary)


if __name__ == "__main__":
    main()
