"""The processes that evaluate together: which examples are whose, and what they tell each other.

They share a folder, in which each keeps what it writes, and a store of a few short values, torchrun's own. There is no collective
operation and so no time-out: a process that is done leaves, and only the first waits for others, to put all of it together, for as
long as each of them gives signs of life.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from remedy.eval.progress import Tally
from remedy.messages import one_line
from remedy.processes import Process, neighbours, this_process
from remedy.settings import UserError
from remedy.speed import duration

T = TypeVar("T")
PAUSE = 0.2
"""Seconds between two looks at what others are doing."""
CONNECTING = timedelta(minutes=10)
"""How long processes may start one after another."""
PULSE = 10.0
"""Seconds between two signs of life of a process."""
SILENCE = 300.0
"""Seconds without one after which a process that is waited for is taken for dead. torchrun ends all processes of its machine when one
dies; of another machine, or of processes that something else has started, it knows nothing."""
UNREACHABLE = (
    "other processes cannot be reached any more: what is written stays, and the same command goes on from there"
)


class World:
    """One of the processes that evaluate together; by default the only one."""

    def __init__(self, process: Process | None = None, store: Any = None) -> None:
        self.process = process or Process(0, 0, 1)
        self._store: Any = store if store is not None else dist.HashStore()  # type: ignore[attr-defined]
        self._heard: dict[int, tuple[int, float]] = {}

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

    def beat(self) -> None:
        """Give a sign of life."""
        self._store.add(self._pulse(self.process.rank), 1)

    def listen(self, condition: str) -> None:
        """Look for signs of life of those whose parts of a condition are not written.

        Raises:
            UserError: one of them has failed, or gave none for so long that it must be dead.
        """
        if self._store.check(["failed"]):
            raise UserError("another process failed")
        for rank in self._ranks:
            if rank == self.process.rank or self._store.check([f"finished/{condition}/{rank}"]):
                continue
            beats, now = self._store.add(self._pulse(rank), 0), time.monotonic()
            if self._heard.get(rank, (None,))[0] != beats:
                self._heard[rank] = (beats, now)
            elif now - self._heard[rank][1] > SILENCE:
                raise UserError(
                    f"nothing was heard of process {rank} of {self.process.world_size} for {duration(SILENCE)}: it or its machine "
                    "died; what is written stays: give the same command again, and it goes on from there"
                )

    def tally(self, condition: str) -> Tally:
        """Counts traces of a condition over all processes."""
        return _Shared(self._store, condition, self.process) if self.several else Tally()

    def fails_first(self) -> bool:
        """Whether no other process has failed yet, as far as this one knows: one of them says why."""
        try:
            return bool(self._store.add("failed", 1) == 1)
        except dist.DistError:
            return True

    @staticmethod
    def _pulse(rank: int) -> str:
        return f"pulse/{rank}"

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
    """The processes that a launcher started with this one; alone without a launcher.

    Raises:
        UserError: the environment does not say which process this is or where the others are, or they do not come.
    """
    process = this_process()
    if process.world_size == 1:
        return World()
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if restarts != "0" and neighbours() < process.world_size:
        raise UserError(
            f"--max_restarts={restarts}: torchrun counts restarts on each machine by itself, and processes would not find each "
            "other: leave it out, and give the same command again where something fails"
        )
    try:
        store, *_ = next(dist.rendezvous("env://", timeout=CONNECTING))  # type: ignore[attr-defined]
    except (ValueError, dist.DistError) as error:
        raise UserError(
            f"{process.world_size} processes are to evaluate together, and did not find each other ({one_line(str(error))}): start "
            "them with torchrun, or one without RANK and WORLD_SIZE in its environment"
        ) from None
    # torchrun's store outlives processes that it starts again.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    world = World(process, dist.PrefixStore(f"evaluation/{attempt}", store))  # type: ignore[attr-defined]
    threading.Thread(target=_keep_beating, args=(world,), daemon=True, name="signs-of-life").start()
    return world


def _keep_beating(world: World) -> None:
    with contextlib.suppress(dist.DistError):  # others are gone: who needs them says so
        while True:
            world.beat()
            time.sleep(PULSE)
