"""Checkpoints: sealed when complete, checked on resume.

A kill during saving leaves a folder without a seal, and the intact checkpoint before it: old ones are removed only
after the new one is sealed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import zlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist
from transformers import TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from remedy.checksums import DamagedFile, read_json, write_json
from remedy.files import replace_file
from remedy.models.model_manifest import CONFIG_FILE, SEAL, file_entries, first_problem
from remedy.settings import UserError, dump, load_stored
from remedy.train.config import RunConfig

LATEST = "latest"
SAMPLE = 1 << 20
SAMPLES = 64
FREE_ON_RESUME = {
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "threads",
    "dataloader_num_workers",
    "torch_compile",
    "micro_batch_size",
    "gradient_checkpointing",
}
"""Training settings that may change on resume, since results stay the same. So may `max_steps` without a curriculum, whose stages it
scales: the learning rate then follows the new schedule."""

log = logging.getLogger(__name__)


class SealedCheckpoint(NamedTuple):
    """An intact checkpoint."""

    path: Path
    step: int
    world_size: int


class Checkpoints(TrainerCallback):
    """Callback that seals each checkpoint, points `latest` at it and removes old ones.

    The newest stay, and the best checkpoint that each of them names.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def on_save(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if dist.is_initialized():  # a seal covers the files of all processes
            dist.barrier()
        if state.is_world_process_zero and args.output_dir is not None:
            output, limit = Path(args.output_dir), self.config.train.save_total_limit
            folder = output / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            (folder / CONFIG_FILE).write_text(dump(self.config), encoding="utf-8")
            seal(folder, state.global_step, args.world_size)
            _update_symlink(output / LATEST, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
            folders = checkpoints(output)
            newest = folders[:limit]
            best = {best_of(folder) for folder in newest}
            for old in folders[limit:]:
                if old.name not in best:
                    shutil.rmtree(old, ignore_errors=True)


def best_of(folder: Path) -> str | None:
    """Return the name of the best checkpoint at the time of this one."""
    with contextlib.suppress(OSError, ValueError, LookupError):  # damaged: nothing to keep for it
        step = json.loads((folder / TRAINER_STATE_NAME).read_text(encoding="utf-8"))["best_global_step"]
        return None if step is None else f"{PREFIX_CHECKPOINT_DIR}-{step}"
    return None


def copy_model(folder: Path, output: Path) -> None:
    """Copy a checkpoint's model into the run's folder.

    Raises:
        UserError: the checkpoint is missing or damaged.
    """
    problem = integrity_error(folder)
    if problem is not None:
        raise UserError(
            f"{folder}: the best checkpoint by validation cannot be used ({problem}): delete the checkpoints after it and "
            "give the same command with --resume"
        )
    # The model alone: what resume needs besides stays in the checkpoint.
    for path in folder.iterdir():
        if path.suffix in (".safetensors", ".json") and path.name not in (TRAINER_STATE_NAME, SEAL):
            replace_file(output / path.name, partial(shutil.copyfile, path))


def seal(folder: Path, step: int, world_size: int) -> None:
    """Write sizes and digests of a checkpoint's files, atomically."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != SEAL]
    write_json(folder / SEAL, {"step": step, "world_size": world_size, "files": file_entries(folder, files, digest)})


def digest(path: Path) -> int:
    """Return the CRC-32 of a file.

    Above 64 MiB it covers 64 evenly spaced MiB, so that sealing takes seconds.
    """
    size, value = path.stat().st_size, 0
    with path.open("rb") as file:
        for i in range(SAMPLES):
            if size > SAMPLES * SAMPLE:
                file.seek(i * (size - SAMPLE) // (SAMPLES - 1))
            value = zlib.crc32(file.read(SAMPLE), value)
    return value


def integrity_error(folder: Path) -> str | None:
    """Say what is wrong with a checkpoint; None if nothing is."""
    if not (folder / SEAL).exists():
        return "it was not written to the end"
    try:
        return first_problem(folder, read_json(folder / SEAL, "")["files"], digest)
    except DamagedFile:
        return f"{SEAL} is damaged"


def latest_intact(output: Path) -> tuple[SealedCheckpoint | None, dict[Path, str]]:
    """Find the newest intact checkpoint, and the problem of each newer one.

    It only reads, so that every process may call it at once.
    """
    damaged: dict[Path, str] = {}
    for folder in checkpoints(output):
        problem = integrity_error(folder)
        if problem is None:
            content = read_json(folder / SEAL, "")
            return SealedCheckpoint(folder, content["step"], content["world_size"]), damaged
        damaged[folder] = problem
    return None, damaged


def quarantine(output: Path, intact: SealedCheckpoint | None, damaged: dict[Path, str]) -> list[str]:
    """Rename damaged checkpoints, remove unsealed ones, point `latest` at the intact one.

    Returns a sentence about each.
    """
    if damaged:  # to one of which it may point
        (output / LATEST).unlink(missing_ok=True)
        if intact is not None:
            _update_symlink(output / LATEST, intact.path.name)
    sentences = []
    for folder, problem in damaged.items():
        if not (folder / SEAL).exists():
            shutil.rmtree(folder, ignore_errors=True)
            sentences.append(f"{folder.name}: {problem}; removed")
            continue
        aside = folder.with_name(f"damaged-{folder.name}")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
        sentences.append(f"{folder.name} is damaged: {problem}; skipped, and kept as {aside.name}")
    return sentences


def checkpoints(output: Path) -> list[Path]:
    """List the checkpoint folders, newest first.

    Raises:
        UserError: one is a link, through which a run would write or delete elsewhere.
    """
    folders = [p for p in output.glob(f"{PREFIX_CHECKPOINT_DIR}-*") if p.name.rsplit("-", 1)[1].isdecimal()]
    if links := [p for p in folders if p.is_symlink()]:
        raise UserError(f"{links[0]}: is a link to another place, in which a run does not write: remove the link")
    return sorted(folders, key=lambda p: -int(p.name.rsplit("-", 1)[1]))


def _update_symlink(link: Path, target: str) -> None:
    replace_file(link, lambda partial: partial.symlink_to(target))


class NewSchedule(TrainerCallback):
    """Callback that applies the learning rate schedule of changed `max_steps` on resume."""

    def __init__(self, checkpoint: SealedCheckpoint) -> None:
        self.before = load_stored(RunConfig, checkpoint.path / CONFIG_FILE).train.total_steps

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.before == state.max_steps:
            return
        scheduler = getattr(kwargs["lr_scheduler"], "scheduler", kwargs["lr_scheduler"])
        was = scheduler.get_last_lr()[0]
        rates = [
            multiplier(scheduler.last_epoch) * rate
            for multiplier, rate in zip(scheduler.lr_lambdas, scheduler.base_lrs)
        ]
        # The checkpoint restored the old schedule's rate, with which the next step would be made.
        scheduler._last_lr = rates
        for group, rate in zip(scheduler.optimizer.param_groups, rates):
            group["lr"] = rate
        if state.is_world_process_zero:
            log.info(
                "%d steps in place of %d: from step %d on the learning rate is that of the new schedule, %.3g there (it was %.3g)",
                *(state.max_steps, self.before, state.global_step, rates[0], was),
            )


def starting_point(config: RunConfig, output: Path, resume: bool) -> tuple[SealedCheckpoint | None, dict[Path, str]]:
    """Find the checkpoint to resume from, and the problem of each newer one.

    It only reads.

    Raises:
        UserError: the output holds checkpoints or a model without `resume`, or another run's; or resume finds only a
            finished model, or a checkpoint beyond `max_steps`.
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
    if file := next(
        (path.name for path in (output / SEAL, *sorted(output.glob("*.safetensors"))) if path.exists()), ""
    ):
        raise UserError(f"output: {output} already holds a model ({file}); choose another output, or delete the folder")
    return None, {}


def _check_same_run(config: RunConfig, path: Path) -> None:
    if not path.exists():
        return
    before, now = load_stored(RunConfig, path).model_dump(), config.model_dump()
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
