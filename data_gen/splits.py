"""Splits by the hash of a program's content."""

from __future__ import annotations

import hashlib
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy import bool_

from remedy import rng
from remedy.registry import Registry, one_of


class Split(NamedTuple):
    """Number of a split's random stream, and its per cent of hashes, `low` to `high`."""

    stream: int
    low: int
    high: int


SPLITS: Registry[Split] = Registry("split")
SPLITS.update(train=Split(0, 0, 80), validation=Split(1, 80, 90), test=Split(2, 90, 100))

SEEN = ("train", "validation")
"""Splits that a training reads."""
ALL = "all"
"""All programs of all splits, for models that were trained on none."""
_ALL_STREAM = 3

SplitName = Annotated[str, one_of(SPLITS)]


def stream_of(split: str) -> int:
    return _ALL_STREAM if split == ALL else SPLITS[split].stream


def in_split(hashes: rng.U64, split: str) -> npt.NDArray[bool_]:
    """Mark the hashes that belong to the split."""
    if split == ALL:
        return np.ones(hashes.shape, dtype=bool_)
    _, low, high = SPLITS[split]
    bucket = rng.below_array(rng.mix_array(hashes), 100)
    return (bucket >= low) & (bucket < high)


def split_of(content_hash: int) -> str:
    bucket = rng.below(rng.mix(content_hash), 100)
    return next(name for name, (_, low, high) in SPLITS.items() if low <= bucket < high)


def text_hash(text: str) -> int:
    """Hash a text to 64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
