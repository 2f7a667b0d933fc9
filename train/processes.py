"""Processes of a run: reductions between them, signals, and their exit."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback, TrainerState

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
INTERRUPTED = 130
"""Exit status after SIGINT, as in shells."""
RESUMABLE = 75
"""Exit status after another signal: EX_TEMPFAIL of sysexits.h, "try again"."""


_host_group: Any = None


def largest(value: int) -> int:
    """Return the largest value over all processes, without waiting for a GPU."""
    return int(_reduced(torch.tensor([value]), dist.ReduceOp.MAX))


def summed(values: torch.Tensor) -> torch.Tensor:
    return _reduced(values, dist.ReduceOp.SUM)


def _reduced(values: torch.Tensor, operation: Any) -> torch.Tensor:
    global _host_group
    if dist.is_initialized() and dist.get_world_size() > 1:
        if _host_group is None:  # gloo, which reduces on the host: NCCL would wait for the GPU
            _host_group = dist.new_group(backend="gloo", timeout=timedelta(hours=2))
        dist.all_reduce(values, op=operation, group=_host_group)
    return values


class TrainingStopped(Exception):
    """A run that a signal ended, after a checkpoint; `status` is its exit status."""

    def __init__(self, message: str, status: int = RESUMABLE) -> None:
        super().__init__(message)
        self.status = status


class StopOnSignal(TrainerCallback):
    """Callback that ends training with a checkpoint after SIGTERM, SIGUSR1 or SIGINT.

    A second SIGINT interrupts at once. On leaving its context the former handlers return.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._before = {number: signal.signal(number, self._note) for number in (*SIGNALS, signal.SIGINT)}

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # All must stop after the same step, and a signal may reach one process alone.
        if largest(int(self.received is not None)):
            self.received = self.received or "a signal to another process"
            control.should_save = control.should_training_stop = True

    def __enter__(self) -> None:
        """Do nothing: training replaces the handlers when it begins."""

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self, state: TrainerState, command: str) -> None:
        """Raise if training was stopped; `command` continues it.

        Raises:
            TrainingStopped: it stopped before its last step.
        """
        if self.received and state.global_step < state.max_steps:
            raise TrainingStopped(
                f"{self.received} after step {state.global_step} of {state.max_steps}, with a checkpoint; go on with: "
                f"{command} --resume",
                INTERRUPTED if self.received == "SIGINT" else RESUMABLE,
            )

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)


def leave(status: int = 0) -> None:
    """Leave a distributed run with an exit status."""
    if dist.is_initialized():  # two gloo processes sometimes abort while the interpreter shuts down: end before
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        os._exit(status)
    if status:
        sys.exit(status)
