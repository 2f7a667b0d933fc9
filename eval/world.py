"""The processes that evaluate together: which examples are whose, and what they tell each other.

They share a folder, in which each keeps what it writes, and a store of a few short values, torchrun's own. There is no collective
operation and so no time-out: a process that is done leaves, and only the first waits for others, to put all of it together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from remedy.data_gen.processes import Process, this_process
from remedy.eval.progress import Tally

T = TypeVar("T")
PAUSE = 0.2
"""Seconds between two looks at what others are doing."""
CONNECTING = timedelta(minutes=10)
"""How long processes may start one after another."""


class World:
    """One of the processes that evaluate together; by default the only one."""

    def __init__(self, process: Process | None = None, store: Any = None) -> None:
        self.process = process or Process(0, 0, 1)
        self._store: Any = store if store is not None else dist.HashStore()  # type: ignore[attr-defined]

    @property
    def is_main(self) -> bool:
        """Whether this is the one that puts together what all have written."""
        return self.process.is_main

    @property
    def several(self) -> bool:
        return self.process.world_size > 1

    def agreed(self, make: Callable[[], T]) -> T:
        """What the first process makes, which all wait for; of JSON's types."""
        if self.is_main:
            made = make()
            self._store.set("agreed", json.dumps(made))
            return made
        while not self._store.check(["agreed"]):
            time.sleep(PAUSE)
        found: T = json.loads(self._store.get("agreed"))
        return found

    def share(self, lengths: Sequence[int]) -> list[int]:
        """The places of this process's part of examples of these lengths. They are dealt out from the longest on, there and back, so
        that all parts take about as long."""
        rank, _, size = self.process
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        turns = [turn % (2 * size) for turn in range(len(order))]
        return [place for place, turn in zip(order, turns) if min(turn, 2 * size - 1 - turn) == rank]

    def finish(self, condition: str) -> None:
        """This process's part of a condition is written."""
        self._store.set(f"finished/{condition}/{self.process.rank}", "")

    def finished(self, condition: str) -> bool:
        """Whether all parts are; true of one process, which has none."""
        return not self.several or self._store.check([f"finished/{condition}/{rank}" for rank in self._ranks])

    def tally(self, condition: str) -> Tally:
        """Counts traces of a condition over all processes."""
        return _Shared(self._store, condition, self.process) if self.several else Tally()

    def fails_first(self) -> bool:
        """Whether no other process has failed yet: one of them says why."""
        return bool(self._store.add("failed", 1) == 1)

    @property
    def _ranks(self) -> range:
        return range(self.process.world_size)


class _Shared(Tally):
    def __init__(self, store: Any, condition: str, process: Process) -> None:
        super().__init__()
        self._store, self._process = store, process
        self._places = [f"tally/{condition}/{rank}" for rank in range(process.world_size)]

    def add(self, done: int, written: int) -> None:
        super().add(done, written)
        self._store.set(self._places[self._process.rank], f"{self.done} {self.written}")

    def all(self) -> tuple[int, int]:
        told = [self._store.get(place).split() for place in self._places if self._store.check([place])]
        return sum(int(done) for done, _ in told), sum(int(written) for _, written in told)


def this_world() -> World:
    """The processes that a launcher started with this one; alone without a launcher."""
    process = this_process()
    if process.world_size == 1:
        return World()
    store, *_ = next(dist.rendezvous("env://", timeout=CONNECTING))  # type: ignore[attr-defined]
    return World(process, dist.PrefixStore("evaluation", store))  # type: ignore[attr-defined]
