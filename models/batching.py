"""Caches of several sequences as one batch: joined, parted again, copied, and cut back to fewer tokens.

Keys and values are aligned on the right: a shorter sequence's begin with padding, which whoever reads on masks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import DynamicCache
from transformers.cache_utils import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionLayer,
)

from remedy.models.cache import MixerCache

KEYS = (DynamicLayer, DynamicSlidingWindowLayer)
"""Cache layers that hold nothing but keys and values (B, H, T, D)."""
STATES = (
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)
"""Cache layers that hold states too, with the batch first."""

AnyCache = TypeVar("AnyCache", bound=Cache)


class Cut(NamedTuple):
    """Tokens that stay of those just read: of `read` tokens the first `kept` of each row; with them it has read `lengths`."""

    read: int
    kept: list[int]
    lengths: list[int]

    def tail(self, x: Tensor, dim: int, width: int) -> Tensor:
        """The last `width` tokens that stay of each row, along `dim` (-1 or -2) of a tensor that ends with the tokens just read,
        aligned on the right; zero where there are fewer. The tensor is overwritten."""
        ends = [x.shape[dim] - self.read + kept for kept in self.kept]
        missing = max(0, width - max(ends))
        if missing:
            x, ends = F.pad(x, (missing, 0) if dim == -1 else (0, 0, missing, 0)), [end + missing for end in ends]
        last = max(ends)
        tail = x.narrow(dim, last - width, width)
        for end in set(ends) - {last}:  # the other rows stay in place: to gather all of them takes three times as long
            rows = [row for row, one in enumerate(ends) if one == end]
            have = min(width, end)
            tail.narrow(dim, width - have, have)[rows] = x.narrow(dim, end - have, have)[rows]
            if have < width:
                tail.narrow(dim, 0, width - have)[rows] = 0.0
        return tail


def is_batchable(cache: object) -> bool:
    """Say if rows of a cache can be joined and parted: all of its layers are of known kinds."""
    return type(cache) in (MixerCache, DynamicCache) and all(type(one) in KEYS + STATES for one in cache.layers)  # type: ignore[attr-defined]


def has_keys(cache: Cache) -> bool:
    """Say if a layer is as long as the sequence, so that rows of different lengths need a mask."""
    return any(getattr(layer, "keys", None) is not None for layer in cache.layers)


def joined(caches: Sequence[AnyCache], lengths: Sequence[int]) -> AnyCache:
    """One cache of all sequences, in order. `lengths`: tokens that each row has read."""

    def aligned(*parts: Tensor) -> Tensor:
        longest = max(part.shape[-2] for part in parts)
        return torch.cat([F.pad(part, (0, 0, longest - part.shape[-2], 0)) for part in parts])

    return _rebuilt(caches, lambda layer: aligned, lambda *parts: torch.cat(parts), lengths)


def selected(cache: AnyCache, rows: Sequence[int], lengths: Sequence[int]) -> AnyCache:
    """A cache of some rows of a batch. `lengths`: tokens that each of these has read."""
    chosen, longest = list(rows), max(lengths)
    return _rebuilt([cache], lambda layer: lambda x: x[..., -longest:, :][chosen], lambda x: x[chosen], lengths)


def copied(cache: AnyCache) -> AnyCache:
    """A cache that reading on from the other leaves alone."""
    return _rebuilt([cache], lambda layer: Tensor.clone, Tensor.clone, None)


def cropped(cache: AnyCache, cut: Cut) -> AnyCache:
    """A cache of keys and values without the last tokens that were read."""
    longest = max(cut.lengths)

    def keys_of(layer: Any) -> Callable[[Tensor], Tensor]:
        window = getattr(layer, "sliding_window", None)
        return lambda x: cut.tail(x, -2, longest if window is None else min(longest, window - 1))

    other = _rebuilt([cache], keys_of, lambda x: x, cut.lengths)
    layers: list[Any] = [layer for layer in other.layers if hasattr(layer, "conv_states")]
    for layer in layers:
        states, widths = layer.conv_states, layer.conv_kernel_size
        layer.conv_states = {k: x if x is None else cut.tail(x, -1, widths[k]) for k, x in states.items()}
    return other


def _rebuilt(
    caches: Sequence[AnyCache],
    keys_of: Callable[[Any], Callable[..., Tensor]],
    states: Callable[..., Tensor],
    lengths: Sequence[int] | None,
) -> AnyCache:
    """A cache like the first, with tensors made of all caches': keys and values by what `keys_of` says for a layer, states by `states`.
    `lengths`: tokens that its rows have read; None: as many as before."""
    other = copy.copy(caches[0])
    other.layers = []
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        layer: Any = copy.copy(layers[0])
        for name, value in vars(layers[0]).items():
            values = [getattr(one, name) for one in layers]
            if name in ("keys", "values") and isinstance(value, Tensor) and value.ndim > 1:
                setattr(layer, name, keys_of(layer)(*values))
            elif name in ("conv_states", "recurrent_states"):
                made = {k: x if x is None else states(*(one[k] for one in values)) for k, x in value.items()}
                setattr(layer, name, made)
            elif isinstance(value, dict):
                setattr(layer, name, dict(value))
            elif name == "cumulative_length" and lengths is not None:
                setattr(layer, name, max(lengths))
        other.layers.append(layer)
    if isinstance(other, MixerCache) and lengths is not None:
        other.align(lengths)
    return other
