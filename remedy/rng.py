"""Random numbers as a pure function of (seed, stream, index, attempt, position).

The generator is SplitMix64's finaliser (Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
2014) on a Weyl sequence, for NumPy arrays and integers alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
U64 = npt.NDArray[np.uint64]

ORDER = 1 << 32
"""The stream of orders; smaller numbers are those of splits."""
WINDOW = ORDER + 1
"""The stream of examples' windows."""
FIRST_LINE = ORDER + 2
"""The stream of first line numbers."""
MARKS = ORDER + 3
"""The stream of marked lines."""
PAIRS = ORDER + 4
"""The stream of held-out pairs of commands."""

# The constants of SplitMix64: the Weyl increment (2**64 over the golden ratio, odd) and the finaliser's multipliers.
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def mix(z: int) -> int:
    """Apply SplitMix64's finaliser to a 64-bit integer."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return z ^ (z >> 31)


def mix_array(z: U64) -> U64:
    """Apply `mix` elementwise to a copy."""
    z = z ^ (z >> np.uint64(30))
    z *= np.uint64(_M1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_M2)
    z ^= z >> np.uint64(31)
    return z


def _stream_key(seed: int, stream: int) -> int:
    # Plus 1, since mix(0) is 0.
    return mix(mix(seed * _GOLDEN + 1) + stream + 1)


def key(seed: int, stream: int, index: int, attempt: int = 0) -> int:
    """Derive the key of an example's attempt, in a split's or other stream."""
    return mix(mix(_stream_key(seed, stream) + (index + 1) * _GOLDEN) + attempt * _GOLDEN)


def keys(seed: int, stream: int, indices: npt.NDArray[np.int64], attempt: int = 0) -> U64:
    """Derive the keys (B,) of indices (B,), as `key` does."""
    base = np.uint64(_stream_key(seed, stream))
    inner = mix_array((indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN) + base)
    return mix_array(inner + np.uint64((attempt * _GOLDEN) & _MASK))


def permutation(seed: int, count: int) -> npt.NDArray[np.int64]:
    """Order 0 to count - 1 at random; seed 0 keeps the order."""
    numbers = np.arange(count, dtype=np.int64)
    return np.argsort(keys(seed, ORDER, numbers), kind="stable") if seed else numbers


def bits(key: int, position: int) -> int:
    """Return 64 random bits."""
    return mix(key + (position + 1) * _GOLDEN)


def bits_array(keys: U64, positions: npt.NDArray[np.int64]) -> U64:
    """Return the bits (B, P) of keys (B,) at positions (P,)."""
    weyl = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return mix_array(keys[:, None] + weyl[None, :])


def below(random_bits: int, n: int) -> int:
    """Map 64 random bits to 0..n-1 (n < 2**32), with bias below n / 2**32."""
    return ((random_bits >> 32) * n) >> 32


def below_array(random_bits: U64, n: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (((random_bits >> np.uint64(32)) * np.asarray(n, np.uint64)) >> np.uint64(32)).astype(np.int64)


class Draws:
    """Successive draws from one key."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.position = 0

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from low to high, both included."""
        value = below(bits(self.key, self.position), high - low + 1)
        self.position += 1
        return low + value

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def text(self, alphabet: str, low: int, high: int) -> str:
        return "".join(self.choice(alphabet) for _ in range(self.integer(low, high)))
