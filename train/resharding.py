"""Resuming a DeepSpeed checkpoint on another number of processes, through DeepSpeed's universal checkpoints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments

from remedy.settings import UserError

LOAD_UNIVERSAL = {"checkpoint": {"load_universal": True}}
"""The section of DeepSpeed's JSON that makes it load a universal checkpoint."""


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
