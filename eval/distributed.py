"""Processes that evaluate together, started by torchrun.

They share only the evaluation's folder. Each writes its own file there, marks its part of a condition as done, and
exits. The first process waits for the others as long as they touch their heartbeat files, then merges all parts. A run
that was killed continues from the folder.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from remedy.processes import Process
from remedy.settings import UserError
from remedy.speed import duration

PAUSE = 0.2
"""Seconds between two looks at the other processes."""
PULSE = 10.0
"""Seconds between two heartbeats of a process."""
SILENCE = 300.0
"""Seconds without a heartbeat after which a process counts as dead; torchrun notices only those of its own machine."""


class Rank:
    """One process of an evaluation; by default the only one."""

    def __init__(self, process: Process | None = None) -> None:
        self.process = process or Process(0, 0, 1)
        self._beats: dict[int, tuple[float, float]] = {}

    @property
    def is_main(self) -> bool:
        """True of the process that merges the parts of all."""
        return self.process.is_main

    @property
    def several(self) -> bool:
        return self.process.world_size > 1

    def part(self, lengths: Sequence[int]) -> list[int]:
        """Return the indices of this process's examples.

        Examples are dealt out from the longest, there and back, so that all parts take about as long.
        """
        rank, _, size = self.process
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        turns = [turn % (2 * size) for turn in range(len(order))]
        return [index for index, turn in zip(order, turns) if min(turn, 2 * size - 1 - turn) == rank]

    def keep_beating(self, folder: Path) -> None:
        """Start a thread that touches this process's heartbeat file every `PULSE` seconds."""
        folder.mkdir(parents=True, exist_ok=True)

        def beat() -> None:
            while True:
                self.beat(folder)
                time.sleep(PULSE)

        threading.Thread(target=beat, daemon=True, name="signs-of-life").start()

    def beat(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            (folder / f"{self.process.rank}.alive").touch()

    def finish(self, folder: Path) -> None:
        """Mark this process's part of a condition as done, unless the folder is gone."""
        with contextlib.suppress(FileNotFoundError):
            self._done(folder, self.process.rank).touch()

    def wait(self, folder: Path, look: Callable[[], None]) -> None:
        """Wait until all parts of a condition are done, calling `look` meanwhile.

        Raises:
            UserError: a process gave no heartbeat for `SILENCE` seconds.
        """
        while ranks := self.unfinished(folder):
            self.listen(folder.parent, ranks)
            look()
            time.sleep(PAUSE)

    def unfinished(self, folder: Path) -> list[int]:
        """List the processes whose parts of a condition are not done."""
        ranks = range(self.process.world_size) if self.several else range(0)
        return [rank for rank in ranks if not self._done(folder, rank).exists()]

    def listen(self, folder: Path, ranks: Sequence[int]) -> None:
        """Check the heartbeats of other processes; raise as `wait`."""
        for rank in ranks:
            path, now = folder / f"{rank}.alive", time.monotonic()
            beat = path.stat().st_mtime if path.exists() else 0.0
            if rank not in self._beats or self._beats[rank][0] != beat:
                self._beats[rank] = beat, now
            elif now - self._beats[rank][1] > SILENCE:
                raise UserError(
                    f"nothing was heard of process {rank} of {self.process.world_size} for {duration(SILENCE)}: it or its machine "
                    "died; what is written stays: give the same command again, and it goes on from there"
                )

    def _done(self, folder: Path, rank: int) -> Path:
        return folder / f"{rank}-of-{self.process.world_size}.done"
