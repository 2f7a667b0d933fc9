"""Stopping so that the run can be resumed: a signal ends it after the step, with a checkpoint."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerState

from remedy.train.processes import largest

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
INTERRUPTED = 130
"""Exit status of a command that SIGINT ended, as shells have it."""
RESUMABLE = 75
"""Exit status of a run that a signal stopped: EX_TEMPFAIL of sysexits.h, "try again"."""


class Stopped(Exception):
    """A run that a signal ended; its last checkpoint is at the step it stopped at. `status`: of the process that says so."""

    def __init__(self, says: str, status: int = RESUMABLE) -> None:
        super().__init__(says)
        self.status = status


class StopOnSignal(TrainerCallback):
    """Ends training after the step in which any process got SIGTERM, SIGUSR1 or SIGINT, with a checkpoint of that step.

    A second SIGINT does not wait for the step. Used as a context around training: however that ends, the handlers are then
    those of before.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self._before = {number: signal.signal(number, self._note) for number in (*SIGNALS, signal.SIGINT)}

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # Every process must stop at the same step, whichever of them the signal reached first.
        if largest(int(self.received is not None)):
            self.received = self.received or "a signal to another process"
            control.should_save = control.should_training_stop = True

    def __enter__(self) -> None:
        """The handlers are replaced when training begins, not before: nothing is lost until then."""

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self, state: TrainerState, again: str) -> None:
        """Say that training was stopped, if it was before its last step, and how it goes on: by the command `again`.

        Raises:
            Stopped: it was.
        """
        if self.received and state.global_step < state.max_steps:
            raise Stopped(
                f"{self.received} after step {state.global_step} of {state.max_steps}, with a checkpoint; go on with: {again} --resume",
                INTERRUPTED if self.received == "SIGINT" else RESUMABLE,
            )

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
