"""Progress of the condition that is evaluated now."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from remedy.speed import Speed, duration

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
        """Return how many conditions are done, with the part of this one."""
        return self.number - 1 + self.done / self.traces

    @property
    def result(self) -> str:
        """`300 of 800 traces, 1.9 traces/s, 4 min 23 s left`."""
        rate = f"{self.rate:.3g} traces/s" if self.rate else ""
        left = f"{duration(self.left)} left" if self.left else ""
        return ", ".join(filter(None, [f"{self.done:,} of {self.traces:,} traces", rate, left]))


class Tally:
    """Traces of a condition that are done in this process, and those of them that it wrote now."""

    def __init__(self) -> None:
        self.done = self.written = 0

    def add(self, done: int, written: int) -> None:
        self.done += done
        self.written += written

    def all(self) -> tuple[int, int]:
        """Both, over all processes that evaluate together."""
        return self.done, self.written


class Meter:
    """Counts the traces of a condition, and says now and then how far it is."""

    def __init__(
        self, number: int, of: int, traces: int, say: Callable[[Underway], None], tally: Tally | None = None
    ) -> None:
        """`number` of `of`: which condition it is."""
        self.traces = traces
        self._tally = tally if tally is not None else Tally()
        self._number, self._of, self._say = number, of, say
        self._speed = Speed()
        self._speed.rate(self._tally.all()[1])
        self._said = time.monotonic()

    @property
    def done(self) -> int:
        """Traces that are done in this process."""
        return self._tally.done

    @property
    def all_done(self) -> int:
        """Traces that are done in all."""
        return self._tally.all()[0]

    def skip(self, traces: int) -> None:
        """So many need not be written: they were before, or are not decoded."""
        self._tally.add(traces, 0)

    def step(self) -> None:
        """One more was written."""
        self._tally.add(1, 1)
        self.look()

    def look(self) -> None:
        """Say how far it is, unless that was said just now."""
        if time.monotonic() - self._said < QUIET:
            return
        self._said = time.monotonic()
        done, written = self._tally.all()
        rate = self._speed.rate(written)
        left = self._speed.left(written, written + self.traces - done)
        self._say(Underway(self._number, self._of, done, self.traces, rate, left))
