"""Start of a run: anew, or at the newest intact checkpoint of the same run, if need be on another number of processes."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState, TrainingArguments

from remedy.models.model_manifest import CONFIG_FILE, SEAL
from remedy.settings import UserError, load
from remedy.train.checkpoints import Sealed, latest_intact
from remedy.train.config import RunConfig

log = logging.getLogger(__name__)
FREE_ON_RESUME = {
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "threads",
    "dataloader_num_workers",
    "torch_compile",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
}
"""Training settings that may change when a run is resumed: what is computed stays the same. Any other makes it another run, but for
`max_steps`: without a curriculum, whose stages it scales, rows stay the same and the learning rate takes the new schedule."""

LOAD_UNIVERSAL = {"checkpoint": {"load_universal": True}}
"""The section of DeepSpeed's JSON that makes it load a universal checkpoint."""


class NewSchedule(TrainerCallback):
    """Learning rate of a run that is resumed with other `max_steps`: it is put where that schedule has it, with a message."""

    def __init__(self, checkpoint: Sealed) -> None:
        self.before = load(RunConfig, checkpoint.path / CONFIG_FILE).train.total_steps

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.before == state.max_steps:
            return
        scheduler = getattr(kwargs["lr_scheduler"], "scheduler", kwargs["lr_scheduler"])
        was = scheduler.get_last_lr()[0]
        rates = [one(scheduler.last_epoch) * rate for one, rate in zip(scheduler.lr_lambdas, scheduler.base_lrs)]
        scheduler._last_lr = rates
        for group, rate in zip(scheduler.optimizer.param_groups, rates):
            group["lr"] = rate
        if state.is_world_process_zero:
            log.info(
                "%d steps in place of %d: from step %d on the learning rate is that of the new schedule, %.3g there (it was %.3g)",
                *(state.max_steps, self.before, state.global_step, rates[0], was),
            )


def starting_point(config: RunConfig, output: Path, resume: bool) -> tuple[Sealed | None, dict[Path, str]]:
    """The checkpoint to resume from, and what is wrong with each newer one. Changes nothing: other processes look as well.

    Raises:
        UserError: the output holds checkpoints or a model and `resume` was not asked for, or they are another run's, if only in how
            its packed rows were read; or it holds a finished model from which no checkpoint is left.
    """
    checkpoint, damaged = latest_intact(output)
    if resume:
        if config.train.total_steps and not (checkpoint or damaged) and (output / SEAL).exists():
            raise UserError(
                f"--resume: {output} holds a finished model, and none of its checkpoints: there is nothing to go on from; use another "
                "output, or delete the folder to train anew"
            )
        _check_same_run(config, output / CONFIG_FILE)
        if checkpoint is not None:
            _check_same_run(config, checkpoint.path / CONFIG_FILE)
            if config.train.total_steps < checkpoint.step:
                raise UserError(
                    f"--resume: train.max_steps is {config.train.total_steps}, and {checkpoint.path} is at step {checkpoint.step} "
                    "already: give more steps, or use another output"
                )
        return checkpoint, damaged
    if checkpoint is not None:
        raise UserError(
            f"output: {output} already holds {checkpoint.path.name}; pass --resume to continue it, or choose another output"
        )
    if held := next(
        (path.name for path in (output / SEAL, *sorted(output.glob("*.safetensors"))) if path.exists()), ""
    ):
        raise UserError(f"output: {output} already holds a model ({held}); choose another output, or delete the folder")
    return None, {}


def _check_same_run(config: RunConfig, path: Path) -> None:
    """Refuse the configuration of another run, where there is one at the path."""
    if not path.exists():
        return
    before, now = load(RunConfig, path).model_dump(), config.model_dump()
    for key in ("data", "mixture", "tokenizer", "model", "shards"):
        if before[key] != now[key]:
            raise UserError(
                f"--resume: `{key}` differs from that of the run in {path.parent} ({path}); use another output"
            )
    free = FREE_ON_RESUME if config.train.curriculum else {*FREE_ON_RESUME, "max_steps"}
    for key, value in now["train"].items():
        if key not in free and before["train"][key] != value:
            raise UserError(
                f"--resume: train.{key} is {value} but was {before['train'][key]} in {path}; use another output"
            )


def to_universal(checkpoint: Path, step: int) -> None:
    """Write the universal form beside a checkpoint's own files, anew each time: an earlier try may have been cut off.

    Raises:
        UserError: DeepSpeed cannot convert it; the message ends on its reason.
    """
    source, target = checkpoint / f"global_step{step}", checkpoint / f"global_step{step}_universal"
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state"]
    command += ["--input_folder", str(source), "--output_folder", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise UserError(
            f"{checkpoint}: cannot be read by another number of processes ({lines[-1].strip()}); resume on as many as wrote it"
        )


class FixUniversalOptimizerState(TrainerCallback):
    """Works around two bugs in loading universal checkpoints under ZeRO-3 (DeepSpeed 0.19.8).

    All parameters share one step counter, which each then advances, so that Adam's bias correction runs ahead; and every group
    gets the first one's hyperparameters, so that norms and biases decay like weights.
    """

    def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer = kwargs["optimizer"]
        while hasattr(optimizer, "optimizer"):  # Accelerate's wrapper, then DeepSpeed's
            optimizer = optimizer.optimizer
        for values in optimizer.state.values():
            if torch.is_tensor(values.get("step")):
                values["step"] = values["step"].clone()
        # Trainer makes two groups: what decays, and what does not.
        for group, decay in zip(optimizer.param_groups, (args.weight_decay, 0.0)):
            group["weight_decay"] = decay
