"""A trainer of several seeds as one batch dimension (`models/stacked.py`): one loop of steps, and for each member all the rest."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import Trainer
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from remedy.data_gen.tokens import Tokens
from remedy.models.stacked import clip_by_member, losses
from remedy.train.config import DIVERGED
from remedy.train.data import Collator, example_lengths
from remedy.train.trainer import NonFiniteLoss, RowTrainer, out_of_patience


class Member(RowTrainer):
    """All of one member's run but its steps: its state, records, validation, patience and files, which are those of a run alone.

    Its model's weights are views of the stacked ones. `checkpoint`: what it goes on from. It is `running` until its last step, until
    its patience is out, or until its loss becomes NaN or infinite (`lost`); what the steps make of its weights after that is not kept.
    """

    def __init__(self, *, checkpoint: Path | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checkpoint = checkpoint
        self.lost: NonFiniteLoss | None = None
        self.running = True
        self.optimizer_state: Callable[[], dict[str, Any]] = dict

    def begin(self, steps: int, steps_an_epoch: int, epochs: int) -> None:
        """As `train` does: the state, and what the callbacks do before the first step."""
        self._init_training_state(
            steps, steps_an_epoch, epochs, str(self.checkpoint) if self.checkpoint else None, None
        )
        self._globalstep_last_logged = self.state.global_step
        self.running = not out_of_patience(self.state, self.args.eval_steps, self.patience)
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)

    def stepped(self, epoch: float, loss: Tensor) -> None:
        """Another step is made, with this loss."""
        self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
        self.state.global_step += 1
        self.state.epoch = epoch
        self._losses.append((self.state.global_step, loss))
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)

    def record(self, losses: Tensor, norm: Tensor, learning_rate: float) -> float:
        """Log the mean loss, given the sum of those since the last record."""
        steps = self.state.global_step - self._globalstep_last_logged
        self._globalstep_last_logged = self.state.global_step
        logs = {"loss": losses.item() / steps, "grad_norm": norm.item(), "learning_rate": learning_rate}
        self.store_flos()
        self.log(logs)
        return logs["loss"]

    @contextlib.contextmanager
    def unless_lost(self) -> Iterator[None]:
        """Around what looks at its losses: one that is NaN or infinite ends it, and its folder says so, as that of a run alone."""
        try:
            yield
        except NonFiniteLoss as error:
            self.lost = error
            Path(self.args.output_dir or ".", DIVERGED).write_text(f"step {error.step}\n", encoding="utf-8")
            self.end()

    def end(self) -> None:
        """No further step is its own."""
        self.running = False
        self.store_flos()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        assert self.lr_scheduler is not None
        torch.save(self.optimizer_state(), Path(output_dir, OPTIMIZER_NAME))
        torch.save(self.lr_scheduler.state_dict(), Path(output_dir, SCHEDULER_NAME))


def collated(collator: Collator, rows: Sequence[tuple[Tokens, ...]]) -> dict[str, Tensor]:
    """Rows of all members as one batch (M B, T), the rows of the first member first."""
    return collator([row for member in zip(*rows) for row in member])


class StackedTrainer(RowTrainer):
    """Makes the steps of all members at once, and after each lets every member do what a run alone does then.

    A member ends by itself, and `finish` is told its number, unless it is lost; training ends with the last of them. All save when one
    does, so that there are steps at which each has a checkpoint to go on from.
    """

    def __init__(
        self, members: Sequence[Member], smoothing: float, finish: Callable[[int], None], **kwargs: Any
    ) -> None:
        args = copy.copy(members[0].args)
        args.eval_strategy = args.save_strategy = "no"  # by member; only a signal makes all save
        super().__init__(args=args, **kwargs)
        self.members, self.smoothing, self.finish = members, smoothing, finish
        self._norms = self._each = self._sums = torch.zeros(len(members), device=self.args.device)
        for number, member in enumerate(members):
            own, all_members = cast(nn.Module, member.model), cast(nn.Module, self.model)
            for parameter, together in zip(own.parameters(), all_members.parameters(), strict=True):
                parameter.data = together.data[number]
            member.optimizer_state = partial(self._state_of, number)

    def _state_of(self, member: int) -> dict[str, Any]:
        assert self.optimizer is not None
        return unstacked_state(self.optimizer.state_dict(), member)

    @property
    def running(self) -> list[tuple[int, Member]]:
        """Members that have not ended, with their numbers."""
        return [(number, member) for number, member in enumerate(self.members) if member.running]

    def check_losses(self) -> None:
        """Nothing: each member looks at its own."""
        self._losses = []

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        begin = time.perf_counter()
        batches, items = Trainer.get_batch_samples(self, epoch_iterator, num_batches, device)
        waited = time.perf_counter() - begin
        self._data_seconds += waited
        for batch in batches:
            masks = batch["attention_mask"].chunk(len(self.members))
            for number, member in self.running:
                lengths = example_lengths({"attention_mask": masks[number]})
                member.count(lengths)
                self._tokens += sum(lengths)
                member._data_seconds += waited
        return batches, items

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        sums, counts = losses(
            model, inputs["input_ids"], inputs["labels"], inputs["attention_mask"], smoothing=self.smoothing
        )
        each = sums / counts.clamp(min=1)
        self._each = each.detach()
        return each.sum()

    def _clip_grad_norm(self, model: torch.nn.Module) -> Tensor:
        self._norms = clip_by_member(model.parameters(), self.args.max_grad_norm)
        return self._norms

    def _init_training_state(self, max_steps: int, steps_an_epoch: int, epochs: int, *args: Any) -> Any:
        found = super()._init_training_state(max_steps, steps_an_epoch, epochs, *args)
        for member in self.members:
            member.begin(max_steps, steps_an_epoch, epochs)
        return found

    def _prepare_for_training(self, *args: Any) -> Any:
        found = super()._prepare_for_training(*args)
        for member in self.members:
            member.lr_scheduler = self.lr_scheduler
            member.model_wrapped = member.accelerator.prepare_model(member.model, evaluation_mode=True)
        return found

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        for member in self.members:
            member._load_from_checkpoint(str(member.checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        folders = [member.checkpoint or Path() for member in self.members]
        states = [torch.load(folder / OPTIMIZER_NAME, map_location="cpu", weights_only=True) for folder in folders]
        assert self.optimizer is not None
        assert self.lr_scheduler is not None
        self.optimizer.load_state_dict(stacked_state(states))
        self.lr_scheduler.load_state_dict(torch.load(folders[0] / SCHEDULER_NAME, weights_only=True))

    def _maybe_log_save_evaluate(
        self, tr_loss: Tensor, grad_norm: Any, model: Any, trial: Any, epoch: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Do for each member what Hugging Face's Trainer does after a step."""
        if not self.running:  # from the beginning: all were out of patience when they were cut off
            self.control.should_training_stop = True
            return
        if self.running[0][1].state.global_step == self.state.global_step:
            return  # the end of the epoch, after its last step
        tr_loss.zero_()
        self._sums = self._sums + self._each
        for number, member in self.running:
            member.stepped(self.state.epoch, self._each[number])
        self._log_members(kwargs["learning_rate"])
        self._evaluate_members()
        if self.control.should_save or any(member.control.should_save for _, member in self.running):
            self._save_members()
        for number, member in self.running:
            if member.control.should_training_stop:
                member.end()
                self.finish(number)
        if not self.running:
            self.control.should_training_stop = True

    def _log_members(self, learning_rate: float) -> None:
        found: list[float] = []
        for number, member in self.running:
            if member.control.should_log:
                with member.unless_lost():
                    found.append(member.record(self._sums[number], self._norms[number], learning_rate))
        if found:
            self._sums = torch.zeros_like(self._sums)
            self.log({"loss": sum(found) / len(found)})

    def _evaluate_members(self) -> None:
        begin, since = time.perf_counter(), [member._since for member in self.members]
        for _, member in self.running:
            if member.control.should_evaluate:
                with member.unless_lost():
                    member._determine_best_metric(member.evaluate(), None)
        spent = time.perf_counter() - begin
        self._since += spent
        for before, member in zip(since, self.members):
            member._since = before + spent  # validation, be it another member's, is not a part of training's speed

    def _save_members(self) -> None:
        """All first, then seals: what a kill leaves unsealed of some is sealed of none, unless it comes between two seals."""
        for _, member in self.running:
            with member.unless_lost():
                member._save_checkpoint(member.model, None)
        for _, member in self.running:
            member.control = member.callback_handler.on_save(member.args, member.state, member.control)

    def _finalize_training(self, *args: Any) -> Any:
        for _, member in self.running:
            member.end()
        return super()._finalize_training(*args)


def stacked_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """AdamW's state dict over stacked parameters, of those of members."""
    first = states[0]
    together = {
        number: {
            key: torch.stack([state["state"][number][key] for state in states]) if value.ndim else value
            for key, value in moments.items()
        }
        for number, moments in first["state"].items()
    }
    return {**first, "state": together}


def unstacked_state(state: dict[str, Any], member: int) -> dict[str, Any]:
    """AdamW's state dict of one member; the count of steps is that of all."""
    own = {
        number: {key: value[member].clone() if value.ndim else value for key, value in moments.items()}
        for number, moments in state["state"].items()
    }
    return {**state, "state": own}
