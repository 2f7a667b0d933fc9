"""The processes that evaluate together, as torchrun starts them: which examples are whose, and who waits for whom.

They share the evaluation's folder and nothing else. Each keeps what it writes there in a file of its own, and says there that its part
of a condition is written; a process that is done leaves. The first alone waits for others, as long as each of them gives signs of life,
and puts all of it together. What is in the folder is true whoever left it there: a run that was killed goes on from it.
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
"""Seconds between two looks at what others are doing."""
PULSE = 10.0
"""Seconds between two signs of life of a process."""
SILENCE = 300.0
"""Seconds without one after which a process that is waited for is taken for dead. torchrun ends all processes of its machine when one
dies; of another machine, or of processes that something else has started, it knows nothing."""


class Rank:
    """One of the processes that evaluate together; by default the only one."""

    def __init__(self, process: Process | None = None) -> None:
        self.process = process or Process(0, 0, 1)
        self._beats: dict[int, tuple[float, float]] = {}

    @property
    def is_main(self) -> bool:
        """Say if this is the one that puts together what all have written."""
        return self.process.is_main

    @property
    def several(self) -> bool:
        return self.process.world_size > 1

    def part(self, lengths: Sequence[int]) -> list[int]:
        """The places of this process's part of examples of these lengths. They are dealt out from the longest on, there and back, so
        that all parts take about as long."""
        rank, _, size = self.process
        order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
        turns = [turn % (2 * size) for turn in range(len(order))]
        return [place for place, turn in zip(order, turns) if min(turn, 2 * size - 1 - turn) == rank]

    def keep_beating(self, folder: Path) -> None:
        """Give signs of life in a folder of conditions that are not done, as long as there is one."""
        folder.mkdir(parents=True, exist_ok=True)

        def beat() -> None:
            while True:
                self.beat(folder)
                time.sleep(PULSE)

        threading.Thread(target=beat, daemon=True, name="signs-of-life").start()

    def beat(self, folder: Path) -> None:
        """Give a sign of life."""
        with contextlib.suppress(OSError):
            (folder / f"{self.process.rank}.alive").touch()

    def finish(self, folder: Path) -> None:
        """Say in a condition's folder that this process's part of it is written; the folder is gone where all were."""
        with contextlib.suppress(FileNotFoundError):
            self._done(folder, self.process.rank).touch()

    def wait(self, folder: Path, look: Callable[[], None]) -> None:
        """Wait until all processes' parts of a condition are written; `look` is called meanwhile.

        Raises:
            UserError: one of them gave no sign of life for so long that it must be dead.
        """
        while ranks := self.unfinished(folder):
            self.listen(folder.parent, ranks)
            look()
            time.sleep(PAUSE)

    def unfinished(self, folder: Path) -> list[int]:
        """The processes whose parts of a condition are not written; none of one process, which has none."""
        ranks = range(self.process.world_size) if self.several else range(0)
        return [rank for rank in ranks if not self._done(folder, rank).exists()]

    def listen(self, folder: Path, ranks: Sequence[int]) -> None:
        """Look for signs of life of other processes; raises as `wait`."""
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
