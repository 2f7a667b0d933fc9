"""Random numbers as a counter-based function of (seed, stream, index, attempt, position).

There is no state and no order: any worker can draw position 17 of example 7,000,001, alone or in a vector of a million.
The mixing function is SplitMix64's finaliser (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators",
OOPSLA 2014), applied to a Weyl sequence, in a NumPy form and in a plain-integer form that agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
U64 = npt.NDArray[np.uint64]

ORDER = 1 << 32
"""The stream that orders are drawn from; splits have the small numbers."""
WINDOW = ORDER + 1
"""The stream that windows on examples are drawn from."""
FIRST_LINE = ORDER + 2
"""The stream that the numbers of programs' first lines are drawn from."""
MARKS = ORDER + 3
"""The stream that marked lines are drawn from."""
PAIRS = ORDER + 4
"""The stream that held-out pairs of commands are drawn from."""

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def mix(z: int) -> int:
    """SplitMix64's finaliser on one 64-bit integer."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return z ^ (z >> 31)


def mix_array(z: U64) -> U64:
    """SplitMix64's finaliser, elementwise; a new array."""
    z = z ^ (z >> np.uint64(30))
    z *= np.uint64(_M1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_M2)
    z ^= z >> np.uint64(31)
    return z


def _stream_key(seed: int, stream: int) -> int:
    return mix(mix(seed * _GOLDEN + 1) + stream + 1)


def key(seed: int, stream: int, index: int, attempt: int = 0) -> int:
    """The 64-bit key all draws of one example's attempt start from. `stream`: a split's, so that splits draw apart."""
    return mix(mix(_stream_key(seed, stream) + (index + 1) * _GOLDEN) + attempt * _GOLDEN)


def keys(seed: int, stream: int, indices: npt.NDArray[np.int64], attempt: int = 0) -> U64:
    """`key` for a vector of indices; shape (B,)."""
    base = np.uint64(_stream_key(seed, stream))
    inner = mix_array((indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) + base)
    return mix_array(inner + np.uint64((attempt * _GOLDEN) & _MASK))


def permutation(seed: int, count: int) -> npt.NDArray[np.int64]:
    """An order of 0 to count - 1 that the seed chooses; 0 leaves them as they are."""
    numbers = np.arange(count, dtype=np.int64)
    return np.argsort(keys(seed, ORDER, numbers), kind="stable") if seed else numbers


def bits(key: int, position: int) -> int:
    """The 64 random bits of one position."""
    return mix(key + (position + 1) * _GOLDEN)


def bits_array(keys: U64, positions: npt.NDArray[np.int64]) -> U64:
    """Random bits for every (key, position); shape (B, P)."""
    weyl = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return mix_array(keys[:, None] + weyl[None, :])


def below(random_bits: int, n: int) -> int:
    """Map 64 random bits to 0..n-1 (n < 2**32) by multiply-and-shift; the bias is below n / 2**32."""
    return ((random_bits >> 32) * n) >> 32


def below_array(random_bits: U64, n: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """`below`, elementwise."""
    return (((random_bits >> np.uint64(32)) * np.asarray(n, np.uint64)) >> np.uint64(32)).astype(np.int64)


class Draws:
    """A reader over the positions of one key, for programs that are built one at a time."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.position = 0

    def integer(self, low: int, high: int) -> int:
        """A uniform integer in low..high, both included."""
        value = below(bits(self.key, self.position), high - low + 1)
        self.position += 1
        return low + value

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def text(self, alphabet: str, low: int, high: int) -> str:
        """A string over the alphabet, of low..high characters."""
        return "".join(self.choice(alphabet) for _ in range(self.integer(low, high)))
