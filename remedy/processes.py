"""Rank of this process, as the launcher that started it says in the environment."""

from __future__ import annotations

import os
from typing import NamedTuple

from remedy.settings import UserError


class Process(NamedTuple):
    """One process of a run: its number over all machines and on its own, and how many there are over all."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def is_main(self) -> bool:
        """Say if this is the one that writes for all."""
        return self.rank == 0


def this_process() -> Process:
    """From `RANK`, `LOCAL_RANK` and `WORLD_SIZE`, which torchrun, deepspeed and launch/train.sbatch set; alone without them.

    Raises:
        UserError: they do not say which of several processes this is.
    """
    told = {key: os.environ[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE") if key in os.environ}
    try:
        size = int(told.get("WORLD_SIZE", 1))
        alone = {"RANK": "0", "LOCAL_RANK": "0"} if size == 1 else {}
        rank, local_rank = (int({**alone, **told}[key]) for key in ("RANK", "LOCAL_RANK"))
    except (KeyError, ValueError):
        rank = local_rank = size = -1
    if not (0 <= rank < size and 0 <= local_rank < size):
        said = " ".join(f"{key}={value}" for key, value in told.items())
        raise UserError(
            f"{said} in the environment do not say which of several processes this is: start them with torchrun, or unset all three"
        )
    return Process(rank, local_rank, size)


def neighbours() -> int:
    """Return how many of the processes are on this machine, from torchrun's `LOCAL_WORLD_SIZE`; without it all of them."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", this_process().world_size))
