"""Start of a run: anew, or at the newest intact checkpoint of the same run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

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
