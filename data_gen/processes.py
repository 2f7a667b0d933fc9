"""Which of several processes this is, as the launcher that started them says in the environment."""

from __future__ import annotations

import os
from typing import NamedTuple


class Process(NamedTuple):
    """One process of a run: its number over all machines and on its own, and how many there are over all."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes for all."""
        return self.rank == 0


def this_process() -> Process:
    """From `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, which torchrun, deepspeed and launch/train.sbatch set; alone without them."""
    return Process(
        *(int(os.environ.get(key, alone)) for key, alone in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    )


def neighbours() -> int:
    """How many of the processes are on this machine, from torchrun's `LOCAL_WORLD_SIZE`; without it all of them."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", this_process().world_size))
