"""Progress messages of an evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from remedy.speed import Speed, duration

QUIET = 10.0
"""Seconds between two messages."""


class Progress(NamedTuple):
    """A message on one condition that is running or done."""

    number: int
    of: int
    result: str
    """`300 of 800 traces, 1.9 traces/s, 4 min 23 s left`, or `permutation, length 16, spacing 4, forcing free: 93.0%`."""
    remarks: str = ""

    def __str__(self) -> str:
        return f"{self.number}/{self.of} {self.result}" + (f" ({self.remarks})" if self.remarks else "")


class Meter:
    """Count of a condition's traces, with a message every `QUIET` seconds.

    `processes`: write traces at the same time, each about as many.
    """

    def __init__(self, number: int, of: int, traces: int, say: Callable[[Progress], None], processes: int = 1) -> None:
        self.traces = traces
        self.done = self._written = 0
        self._number, self._of, self._say, self._processes = number, of, say, processes
        self._speed = Speed()
        self._speed.rate(0)
        self._last_message = time.monotonic()

    @property
    def all_done(self) -> int:
        """Traces done in all processes, by estimate."""
        return min(self.done * self._processes, self.traces)

    def skip(self, traces: int) -> None:
        """Count traces as done that need not be written."""
        self.done += traces

    def step(self) -> None:
        """Count a written trace."""
        self.done += 1
        self._written += 1
        self.look()

    def look(self) -> None:
        """Send a message, unless the last one is recent."""
        if time.monotonic() - self._last_message < QUIET:
            return
        self._last_message = time.monotonic()
        done, written = self.all_done, self._written * self._processes
        rate = self._speed.rate(written)
        left = duration(self._speed.left(written, written + self.traces - done))
        parts = [f"{done:,} of {self.traces:,} traces", f"{rate:.3g} traces/s" if rate else "", left and f"{left} left"]
        self._say(Progress(self._number, self._of, ", ".join(filter(None, parts))))
