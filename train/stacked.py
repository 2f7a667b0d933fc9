"""Runs of one recipe that differ in their seeds, trained at once: the folders and files that each alone would have made."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch.utils.data import StackDataset
from transformers import PrinterCallback, set_seed

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.mixers import find_kernels, kernels_of
from remedy.models.model_manifest import SEAL
from remedy.models.stacked import stack
from remedy.models.tokenizer import build_tokenizer
from remedy.owner import owned
from remedy.processes import this_process
from remedy.settings import ConfigError, UserError
from remedy.train.arguments import training_arguments
from remedy.train.checkpoints import checkpoints, integrity_error
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.failing import diverged, explained
from remedy.train.members import Member, StackedTrainer, collated
from remedy.train.progress import ProgressLine
from remedy.train.resume import starting_point
from remedy.train.run import (
    DTYPES,
    announce,
    build_model,
    build_rows,
    keep_trained,
    parts,
    prepare,
    quieten,
    records,
)
from remedy.train.stopping import StopOnSignal
from remedy.train.wandb_runs import WandbLogger

log = logging.getLogger(__name__)
ON_A_CPU = "gru"
"""The mixer whose members are trained faster together on a CPU core: of the others, products or PyTorch's own fused recurrence (LSTM)
are at the core's limit already."""


def seeds_of(config: RunConfig) -> list[RunConfig]:
    """The runs that a configuration stands for: itself, or with `train.stacked` one of each seed."""
    if config.train.stacked is None:
        return [config]
    return [
        config.changed(
            {
                "name": f"{config.name},seed={config.train.seed + number}",
                "output": str(Path(config.output) / f"seed-{config.train.seed + number}"),
                "train.seed": config.train.seed + number,
                "train.data_seed": config.train.data_seed + number,
                "train.stacked": None,
            }
        )
        for number in range(config.train.stacked)
    ]


def train_stacked(name: str, configs: Sequence[RunConfig], resume: bool = False, on_any_cpu: bool = False) -> None:
    """Train runs that differ in their seeds alone, and save each. One whose loss becomes NaN or infinite leaves the others.

    With `resume` those that have ended are left as they are, and the others go on from the last step at which each has a checkpoint.

    Raises:
        UserError: as `train`, of any of them; or these runs cannot be trained at once here. The others are saved before.
        Stopped: a signal ended them after a step, with checkpoints to resume from.
    """
    quieten(configs[0])
    _refuse_here(configs[0], on_any_cpu)
    left = [config for config in configs if not (resume and _has_ended(Path(config.output)))]
    with contextlib.ExitStack() as folders:
        for config in left:
            folders.enter_context(owned(Path(config.output)))
        if left:
            _train(name, left, resume)
    lost = {config.name: Path(config.output, DIVERGED) for config in configs}
    if said := [f"{one}: {path.read_text(encoding='utf-8').strip()}" for one, path in lost.items() if path.exists()]:
        raise UserError("\n".join(said))


def _train(name: str, configs: Sequence[RunConfig], resume: bool) -> None:
    found = [starting_point(config, Path(config.output), resume) for config in configs]
    places = _common_checkpoints(configs) if resume else [None] * len(configs)
    arguments = [training_arguments(config, 1) for config in configs]
    for config, own, (_, damaged) in zip(configs, arguments, found):
        prepare(config, own, None, damaged)
    tokenizer = build_tokenizer(configs[0].tokenizer, configs[0].data)
    models = []
    for config in configs:
        set_seed(config.train.seed)
        models.append(cast(DecoderForCausalLM, build_model(config, tokenizer)))
    device, dtype = arguments[0].device, DTYPES[configs[0].train.precision]
    find_kernels(models[0].mixers(), device, dtype)
    together = stack(models)
    rows = [build_rows(config, tokenizer) for config in configs]
    made = [parts(config, tokenizer, own) for config, own in zip(configs, arguments)]
    members = [
        Member(
            **made[n],
            model=models[n],
            train_dataset=rows[n],
            callbacks=records(config, WandbLogger(config)),
            checkpoint=places[n],
        )
        for n, config in enumerate(configs)
    ]

    finished: set[int] = set()

    def finish(number: int) -> None:
        finished.add(number)
        paths = kernels_of(models[number].mixers(), device, dtype)
        how = f"stacked with {len(configs) - 1} other seeds"
        if device.type == "cuda":
            how += ": short convolutions by PyTorch, and no scan by mamba-ssm"
        computed = {mixer: f"{path}; {how}" for mixer, path in paths.items()}
        why = "seeds are stacked, and each has a loss of its own"
        keep_trained(configs[number], members[number], tokenizer, {"mixers": computed, "all_logits": why})

    stop, progress = StopOnSignal(), ProgressLine(name)
    trainer = StackedTrainer(
        members,
        configs[0].train.label_smoothing_factor,
        finish,
        model=together,
        train_dataset=StackDataset(*rows),  # row i of every member, each in the order of its own seed
        data_collator=partial(collated, made[0]["data_collator"]),
        callbacks=[stop, progress],
    )
    for one in (trainer, *members):
        one.remove_callback(PrinterCallback)
    log.info("%s: %d seeds at once", name, len(configs))
    announce(configs[0], models[0], device)
    with stop, progress, explained(trainer, rows[0], configs[0]):
        try:
            trainer.train(resume_from_checkpoint=str(places[0]) if places[0] else None)
        except (torch.OutOfMemoryError, MemoryError):
            raise UserError(f"out of memory with {len(configs)} seeds at once: lower train.stacked") from None
    stop.check(trainer.state, "the same command, and")
    for number, (config, member, read) in enumerate(zip(configs, members, rows)):
        if member.lost is not None:
            text = diverged(member.lost, read, config)
            Path(config.output, DIVERGED).write_text(f"{text}\n", encoding="utf-8")
        elif number not in finished:  # cut off after the last checkpoint
            finish(number)


def _refuse_here(config: RunConfig, on_any_cpu: bool) -> None:
    """Refuse processes and devices on which members are not to be stacked."""
    if this_process().world_size > 1:
        raise UserError("train.stacked: members are trained by one process: start it alone, or remove train.stacked")
    assert isinstance(config.model, DecoderSettings)
    slow = [mixer for mixer in config.model.mixers if mixer != ON_A_CPU]
    if slow and not torch.cuda.is_available() and not on_any_cpu:
        raise ConfigError(
            f"train.stacked: on a CPU, seeds with {slow[0]} are trained no faster at once than one after another (only those with "
            f"{ON_A_CPU} are): remove it, or train on a GPU"
        )


def _has_ended(output: Path) -> bool:
    return (output / SEAL).exists() or (output / DIVERGED).exists()


def _common_checkpoints(configs: Sequence[RunConfig]) -> list[Path | None]:
    """The checkpoints of the last step at which each run has an intact one; none: all begin anew."""
    intact = [{f.name for f in checkpoints(Path(c.output)) if not integrity_error(f)} for c in configs]
    common = set.intersection(*intact)
    if not common:
        if any(intact):
            log.warning("there is no step at which each of %d runs has a checkpoint: all begin anew", len(configs))
        return [None] * len(configs)
    latest = max(common, key=lambda name: int(name.rsplit("-", 1)[1]))
    return [Path(config.output) / latest for config in configs]
