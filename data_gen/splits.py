"""Splits by content: the hash of a program, and of nothing else, says which split it belongs to."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import numpy.typing as npt

from remedy.data_gen import rng

Split = Literal["train", "validation", "test"]
SHARES: dict[str, tuple[int, int]] = {"train": (0, 80), "validation": (80, 90), "test": (90, 100)}
"""Per cent of the hash range that belongs to each split."""


def in_split(hashes: rng.U64, split: str) -> npt.NDArray[np.bool_]:
    """Which of the hashes belong to the split."""
    low, high = SHARES[split]
    bucket = rng.below_array(rng.mix_array(hashes), 100)
    return (bucket >= low) & (bucket < high)


def split_of(content_hash: int) -> str:
    """The split a program belongs to; what `in_split` says of arrays."""
    bucket = rng.below(rng.mix(content_hash), 100)
    return next(split for split, (low, high) in SHARES.items() if low <= bucket < high)


def text_hash(text: str) -> int:
    """A stable 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
