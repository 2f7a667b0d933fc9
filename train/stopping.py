"""Stopping so that the run can go on: a signal ends it after the step with a checkpoint; a bad loss ends it without one."""

from __future__ import annotations

import signal
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
RESUMABLE = 75
"""Exit status of a run that a signal stopped: EX_TEMPFAIL of sysexits.h, "try again"."""


class Stopped(Exception):
    """A run that a signal ended; its last checkpoint is at the step it stopped at."""


class StopOnSignal(TrainerCallback):
    """Ends training after the step in which any process got SIGTERM or SIGUSR1, with a checkpoint of that step."""

    def __init__(self) -> None:
        self.received: str | None = None
        self.step = 0
        self._before: dict[signal.Signals, Any] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # Every process must stop at the same step, whichever of them the signal reached first.
        if largest(int(self.received is not None)):
            self.received = self.received or "a signal to another process"
            self.step = state.global_step
            control.should_save = True
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name


_host_group: Any = None


def largest(value: int) -> int:
    """The largest value over all processes, agreed on by the hosts, so that no accelerator has to wait for it."""
    global _host_group
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return value
    if _host_group is None:
        _host_group = dist.new_group(backend="gloo", timeout=timedelta(hours=2))
    agreed = torch.tensor([value])
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX, group=_host_group)
    return int(agreed)
