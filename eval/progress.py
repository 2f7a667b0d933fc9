"""How far the condition is that is evaluated now, for whoever waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from remedy.data_gen.speed import Speed, duration

QUIET = 10.0
"""Seconds between two lines."""


class Underway(NamedTuple):
    """A condition that is evaluated now: which of how many, how many of its traces are done, how many in a second, and the seconds
    that the others take at that rate."""

    number: int
    of: int
    done: int
    traces: int
    rate: float | None
    left: float | None

    def __str__(self) -> str:
        return f"{self.number}/{self.of} {self.result}"

    @property
    def finished(self) -> float:
        """How many conditions are done, with the part of this one."""
        return self.number - 1 + self.done / self.traces

    @property
    def result(self) -> str:
        """`300 of 800 traces, 1.9 traces/s, 4 min 23 s left`."""
        rate = f"{self.rate:.3g} traces/s" if self.rate else ""
        left = f"{duration(self.left)} left" if self.left else ""
        return ", ".join(filter(None, [f"{self.done:,} of {self.traces:,} traces", rate, left]))


class Meter:
    """Counts the traces of a condition, and says now and then how far it is."""

    def __init__(self, number: int, of: int, traces: int, say: Callable[[Underway], None]) -> None:
        """`number` of `of`: which condition it is."""
        self.done = 0
        self.traces = traces
        self._written = 0
        self._number, self._of, self._say = number, of, say
        self._speed = Speed()
        self._speed.rate(0)
        self._said = time.monotonic()

    def skip(self, traces: int) -> None:
        """So many need not be written: they were before, or are not decoded."""
        self.done += traces

    def step(self) -> None:
        """One more was written."""
        self.done += 1
        self._written += 1
        if time.monotonic() - self._said < QUIET:
            return
        self._said = time.monotonic()
        rate = self._speed.rate(self._written)
        left = self._speed.left(self._written, self._written + self.traces - self.done)
        self._say(Underway(self._number, self._of, self.done, self.traces, rate, left))
