"""Seeds of one recipe, trained in one batch dimension (`models/stacked.py`).

Each seed's folder holds what it would hold if trained alone.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, StackDataset
from transformers import TrainerControl, TrainerState, set_seed
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from remedy.data_gen.tokens import Tokens
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.mixers.used_kernels import find_kernels, kernels_of
from remedy.models.model_manifest import SEAL
from remedy.models.stacked import clip_by_member, losses, stack
from remedy.models.tokenizer import build_tokenizer
from remedy.owner import owned
from remedy.processes import this_process
from remedy.settings import UserError
from remedy.train.arguments import training_arguments
from remedy.train.checkpoints import Checkpoints, checkpoints, integrity_error, starting_point
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.data import Collator, Rows, example_lengths
from remedy.train.processes import StopOnSignal
from remedy.train.run import (
    DTYPES,
    announce,
    build_model,
    build_rows,
    keep_trained,
    prepare,
    quieten,
    try_saving,
)
from remedy.train.tracking import ProgressLine, Tracking
from remedy.train.trainer import NonFiniteLoss, RowTrainer, diverged, explained, out_of_patience

log = logging.getLogger(__name__)


def train_stacked(name: str, configs: Sequence[RunConfig], resume: bool = False) -> None:
    """Train runs that differ only in their seeds, and save each.

    A diverged run drops out. With `resume`, ended runs stay; the others continue from their last common checkpoint.

    Raises:
        UserError: as `train`, for any of them, after the others are saved; or they cannot be stacked here.
        TrainingStopped: a signal ended them, with checkpoints.
    """
    if this_process().world_size > 1:
        raise UserError(
            "train.stacked: seeds are trained at once by one process: start it alone, or remove train.stacked"
        )
    quieten(configs[0])
    unfinished = [config for config in configs if not (resume and _has_ended(config))]
    with contextlib.ExitStack() as folders:
        for config in unfinished:
            folders.enter_context(owned(Path(config.output)))
        if unfinished:
            _train(name, unfinished, resume)
    notes = {config.name: Path(config.output, DIVERGED) for config in configs}
    if messages := [
        f"{run}: {note.read_text(encoding='utf-8').strip()}" for run, note in notes.items() if note.exists()
    ]:
        raise UserError("\n".join(messages))


def _train(name: str, configs: Sequence[RunConfig], resume: bool) -> None:
    starts = [starting_point(config, Path(config.output), resume) for config in configs]
    common_checkpoints = _common_checkpoints(configs) if resume else [None] * len(configs)
    arguments = [training_arguments(config, 1) for config in configs]
    for config, arguments_of_member, (_, damaged) in zip(configs, arguments, starts):
        prepare(config, arguments_of_member, None, damaged)
    tokenizer = build_tokenizer(configs[0].tokenizer, configs[0].data)
    models = []
    for config in configs:
        set_seed(config.train.seed)  # a member begins with the weights that it has alone
        models.append(cast(DecoderForCausalLM, build_model(config, tokenizer)))
    try_saving(configs[0], models[0], tokenizer)
    find_kernels(models[0].mixers(), arguments[0].device, DTYPES[configs[0].train.precision])
    stacked = stack(models)  # before members replace the heads' forward
    members = [
        Member(
            config,
            tokenizer,
            build_rows(config, tokenizer),
            checkpoint=checkpoint,
            model=model,
            args=arguments_of_member,
            callbacks=[Tracking(config), Checkpoints(config)],
        )
        for config, checkpoint, arguments_of_member, model in zip(configs, common_checkpoints, arguments, models)
    ]
    stop, progress = StopOnSignal(), ProgressLine(name)
    log.info("%s: %d seeds at once", name, len(configs))
    announce(configs[0], models[0], arguments[0].device)
    with stop, progress, explained(members[0]):
        try:
            _steps(members, stacked, stop, progress)
        except (torch.OutOfMemoryError, MemoryError):
            raise UserError(f"out of memory with {len(configs)} seeds at once: lower train.stacked") from None
    for member in members:
        if not _has_ended(member.config):  # cut off after the last checkpoint
            member.keep(len(members))


def _has_ended(config: RunConfig) -> bool:
    return Path(config.output, SEAL).exists() or Path(config.output, DIVERGED).exists()


def _common_checkpoints(configs: Sequence[RunConfig]) -> list[Path | None]:
    """Return the runs' intact checkpoints of their last common step, else None."""
    intact = [[f.name for f in checkpoints(Path(c.output)) if not integrity_error(f)] for c in configs]
    latest = next((name for name in intact[0] if all(name in others for others in intact)), None)
    if latest is None and any(intact):
        log.warning("there is no step at which each of %d runs has a checkpoint: all begin anew", len(configs))
    return [Path(config.output, latest) if latest else None for config in configs]


class Member(RowTrainer):
    """One seed of a stacked training: its run without the steps.

    Its model's weights are views of the stacked ones. `checkpoint`: where it continues. It is `running` until its last
    step, until its patience is out, or until it diverges; later weights are not kept.
    """

    def __init__(self, *given: Any, checkpoint: Path | None, **kwargs: Any) -> None:
        super().__init__(*given, **kwargs)
        self.checkpoint, self.running = checkpoint, True

    def begin(self, scheduler: Any, optimizer: torch.optim.Optimizer, number: int) -> None:
        """Start like `Trainer.train`; the optimizer is that of all members."""
        self.lr_scheduler, self.stacked_optimizer, self.number = scheduler, optimizer, number
        self.model_wrapped = self.accelerator.prepare_model(self.model, evaluation_mode=True)
        steps = self.args.max_steps
        self._init_training_state(steps, steps, 1, str(self.checkpoint) if self.checkpoint else None, None)
        self._globalstep_last_logged = self.state.global_step
        # Its patience may have been out when all were cut off.
        self.running = not out_of_patience(self.state, self.args.eval_steps, self.patience)
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)

    def read(self, mask: Tensor, seconds: float) -> None:
        """Count its rows of a batch, by attention mask (B, T), and seconds waited."""
        self.count(example_lengths({"attention_mask": mask}))
        self._data_seconds += seconds

    def stepped(self, epoch: float, loss: Tensor) -> None:
        self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
        self.state.global_step += 1
        self.state.epoch = epoch
        self._losses.append((self.state.global_step, loss))
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)

    def record(self, losses: Tensor, norm: Tensor, learning_rate: float) -> dict[str, float] | None:
        """Log the mean loss, given the sum since the last record; return what is logged.

        None if logging is not due or the loss is not finite.
        """
        if not self.control.should_log:
            return None
        steps = self.state.global_step - self._globalstep_last_logged
        self._globalstep_last_logged = self.state.global_step
        logs = {"loss": losses.item() / steps, "grad_norm": norm.item(), "learning_rate": learning_rate}
        self.store_flos()
        with self.unless_lost():
            self.log(logs)
        return logs if self.running else None

    @contextlib.contextmanager
    def unless_lost(self) -> Iterator[None]:
        """End this member if the block finds a NaN or infinite loss."""
        try:
            yield
        except NonFiniteLoss as error:
            text = diverged(error, self)
            Path(self.config.output, DIVERGED).write_text(f"{text}\n", encoding="utf-8")
            self.end()

    def end(self) -> None:
        self.running = False
        self.store_flos()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def keep(self, count: int) -> None:
        """Save its model, with a note that `count` seeds were stacked."""
        device, decoder = self.args.device, cast(DecoderForCausalLM, self.model)
        note = f"stacked with {count - 1} other seeds"
        if device.type == "cuda":
            note += ": short convolutions by PyTorch"
        kernels = kernels_of(decoder.mixers(), device, DTYPES[self.config.train.precision])
        reason = "seeds are stacked, and each has a loss of its own"
        mixers = {mixer: f"{path}; {note}" for mixer, path in kernels.items()}
        keep_trained(self, {"mixers": mixers, "all_logits": reason})

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        assert self.lr_scheduler is not None
        member_state = unstacked_state(self.stacked_optimizer.state_dict(), self.number)
        torch.save(member_state, Path(output_dir, OPTIMIZER_NAME))
        torch.save(self.lr_scheduler.state_dict(), Path(output_dir, SCHEDULER_NAME))


def _steps(members: Sequence[Member], model: DecoderForCausalLM, stop: StopOnSignal, progress: ProgressLine) -> None:
    """Make all members' steps, and let each log, validate and save.

    A member that ends is saved, unless it diverged. Training ends with the last member.
    """
    first, count = members[0], len(members)
    args, smoothing = first.args, first.config.train.label_smoothing_factor
    model = first.accelerator.prepare_model(model, evaluation_mode=True)
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable(args.gradient_checkpointing_kwargs)
    optimizer, scheduler = first.create_optimizer(model), first.create_scheduler(args.max_steps)
    for number, member in enumerate(members):
        member.begin(scheduler, optimizer, number)
        for parameter, stacked in zip(member.model.parameters(), model.parameters(), strict=True):  # type: ignore[union-attr]
            parameter.data = stacked.data[number]
    # After the weights became views: a checkpoint is loaded into them in place.
    if first.checkpoint is not None:
        _load(members, optimizer, scheduler)
    state, control = TrainerState(global_step=first.state.global_step, max_steps=args.max_steps), TrainerControl()
    for callback in (stop, progress):
        callback.on_train_begin(args, state, control)
    sums, last_end = torch.zeros(count, device=args.device), time.perf_counter()
    for batch in _batches(members, state.global_step):
        running = [(number, member) for number, member in enumerate(members) if member.running]
        if not running:
            break
        for number, member in running:
            member.read(batch["attention_mask"].chunk(count)[number], time.perf_counter() - last_end)
        batch = {name: part.to(args.device, non_blocking=True) for name, part in batch.items()}
        ids, labels, mask = (batch[name] for name in ("input_ids", "labels", "attention_mask"))
        total, tokens = losses(model, ids, labels, mask, smoothing, batch.get("loss_weights"))
        mean_losses = total / tokens.clamp(min=1)
        # Members share no parameter: the gradient of the sum is each member's own.
        mean_losses.sum().backward()
        norms = clip_by_member(model.parameters(), args.max_grad_norm)
        optimizer.step()
        rate = float(scheduler.get_last_lr()[0])
        scheduler.step()
        model.zero_grad()
        state.global_step += 1
        for callback in (stop, progress):
            callback.on_step_end(args, state, control)
        sums = sums + mean_losses.detach()
        for number, member in running:
            member.stepped(state.global_step / args.max_steps, mean_losses.detach()[number])
        logs = [member.record(sums[number], norms[number], rate) for number, member in running]
        if logged := [record for record in logs if record is not None]:
            sums = torch.zeros_like(sums)
            mean, speed = (sum(record[key] for record in logged) for key in ("loss", "tokens_per_second"))
            progress.on_log(args, state, control, logs={"loss": mean / len(logged), "tokens_per_second": speed})
        _validate(members)
        _save([member for _, member in running if member.running], control.should_save)
        for _, member in running:
            if member.running and member.control.should_training_stop:
                member.end()
                member.keep(count)
        if control.should_training_stop:
            break
        last_end = time.perf_counter()
    for member in members:
        if member.running:
            member.end()
    stop.check(state, "the same command, and")


def _batches(members: Sequence[Member], start: int) -> DataLoader[dict[str, Tensor]]:
    """Load batches (M B, T) from step `start` on, the first member's rows first."""
    args, size = members[0].args, members[0].args.per_device_train_batch_size
    return DataLoader(
        cast(Any, StackDataset(*(cast(Rows, member.train_dataset) for member in members))),
        batch_size=size,
        sampler=range(start * size, args.max_steps * size),
        collate_fn=partial(_collated, cast(Collator, members[0].data_collator)),
        num_workers=args.dataloader_num_workers,
        pin_memory=args.device.type == "cuda",
    )


def _collated(collator: Collator, rows: Sequence[tuple[Tokens, ...]]) -> dict[str, Tensor]:
    return collator([row for member in zip(*rows) for row in member])


def _validate(members: Sequence[Member]) -> None:
    """Validate members that are due; no member's speed counts the time."""
    begin, since = time.perf_counter(), [member._since for member in members]
    for member in members:
        if member.running and member.control.should_evaluate:
            with member.unless_lost():
                member._determine_best_metric(member.evaluate(), None)
    for before, member in zip(since, members):
        member._since = before + time.perf_counter() - begin


def _save(members: Sequence[Member], stopping: bool) -> None:
    """Save all members if one is due, for common checkpoints."""
    # All are saved before any is sealed: a kill leaves none sealed, unless it comes between two seals.
    if stopping or any(member.control.should_save for member in members):
        for member in members:
            with member.unless_lost():
                member._save_checkpoint(member.model, None)
        for member in members:
            if member.running:
                member.control = member.callback_handler.on_save(member.args, member.state, member.control)


def _load(members: Sequence[Member], optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
    folders = [member.checkpoint or Path() for member in members]
    for member, folder in zip(members, folders):
        member._load_from_checkpoint(str(folder))
    # Without weights_only, a file would be unpickled, and could run code.
    states = [torch.load(folder / OPTIMIZER_NAME, map_location="cpu", weights_only=True) for folder in folders]
    optimizer.load_state_dict(stacked_state(states))
    scheduler.load_state_dict(torch.load(folders[0] / SCHEDULER_NAME, weights_only=True))


def stacked_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = states[0]["state"]
    # A scalar is the step counter, which is equal in all members.
    stacked = {
        number: {
            key: torch.stack([state["state"][number][key] for state in states]) if value.ndim else value
            for key, value in moments.items()
        }
        for number, moments in first.items()
    }
    return {**states[0], "state": stacked}


def unstacked_state(state: dict[str, Any], member: int) -> dict[str, Any]:
    member_state = {
        number: {key: value[member].clone() if value.ndim else value for key, value in moments.items()}
        for number, moments in state["state"].items()
    }
    return {**state, "state": member_state}
