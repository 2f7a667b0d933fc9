"""Mixture of data: the i-th example's part and index, from i alone.

Parts take turns in a fixed pattern: no example is skipped or repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.settings import Settings

LONGEST = 10_000
STRIDE = 1 << 40
"""Examples between the first ones of two data seeds; those of `MOST_SEEDS` seeds fit in 63 bits."""
MOST_SEEDS = 1 << 22


class Part(Settings):
    """Part of a mixture."""

    weight: int = Field(default=1, ge=1, le=LONGEST)
    """Its share of the examples is this over the sum of all weights."""
    set: dict[str, Any] = {}
    """Changes of the run's `data` for this part: `{"reveal.locals": diff, task: {kind: composition}}`."""


class Source(NamedTuple):
    """Resolved part.

    `examples`: of its split, after which it repeats; None: unlimited.
    """

    name: str
    weight: int
    data: DataConfig
    examples: int | None


class Location(NamedTuple):
    """Source numbers and indices of examples; (N,) each."""

    sources: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]


class Mixture:
    """Sources of a run and their turns; without parts, the run's own data.

    `data_seed`: unlimited sources begin at `data_seed` x `STRIDE`; it orders limited ones.

    Raises:
        ConfigError: a part's changes do not validate.
    """

    def __init__(self, data: DataConfig, parts: Mapping[str, Part], data_seed: int = 0, split: str = "train") -> None:
        resolved = {
            name: (part.weight, data.changed(part.set, f"mixture.{name}.set")) for name, part in parts.items()
        } or {"": (1, data)}
        self.sources = [Source(n, weight, d, d.task.count(split)) for n, (weight, d) in resolved.items()]
        self.part_of, self.seen_before = _interleave([source.weight for source in self.sources])
        self.first = data_seed * STRIDE
        self.orders = {
            number: rng.permutation(data_seed, source.examples)
            for number, source in enumerate(self.sources)
            if source.examples
        }

    def locate(self, numbers: Sequence[int] | npt.NDArray[np.int64]) -> Location:
        """Find the source and index of the examples at these positions."""
        block, offset = np.divmod(np.asarray(numbers, dtype=np.int64), len(self.part_of))
        sources = self.part_of[offset]
        weights = np.array([source.weight for source in self.sources])
        indices = block * weights[sources] + self.seen_before[offset]
        drawn = indices + self.first
        for number, order in self.orders.items():
            mine = sources == number
            drawn[mine] = order[indices[mine] % len(order)]
        return Location(sources, drawn)


def _interleave(weights: Sequence[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the part of each position, the one furthest behind, and its earlier turns."""
    turns_taken, share = np.zeros(len(weights), np.int64), np.array(weights)
    turns, before = [], []
    for position in range(1, sum(weights) + 1):
        turn = int(np.argmax(share * position - turns_taken * sum(weights)))
        turns.append(turn)
        before.append(int(turns_taken[turn]))
        turns_taken[turn] += 1
    return np.array(turns), np.array(before)
