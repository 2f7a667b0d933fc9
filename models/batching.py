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
    layers = [_joined_layers(one, lengths) for one in zip(*(cache.layers for cache in caches), strict=True)]
    return _of_layers(caches[0], layers, lengths)


def selected(cache: AnyCache, rows: Sequence[int], lengths: Sequence[int]) -> AnyCache:
    """A cache of some rows of a batch. `lengths`: tokens that each of these has read."""
    layers = [_mapped_layer(layer, lambda x: x[list(rows)], lengths) for layer in cache.layers]
    return _of_layers(cache, layers, lengths)


def copied(cache: AnyCache) -> AnyCache:
    """A cache that reading on from the other leaves alone."""
    return _of_layers(cache, [_mapped_layer(layer, Tensor.clone, None) for layer in cache.layers], None)


def cropped(cache: AnyCache, cut: Cut) -> AnyCache:
    """A cache of keys and values without the last tokens that were read."""
    return _of_layers(cache, [_cropped_layer(layer, cut) for layer in cache.layers], cut.lengths)


def _of_layers(cache: AnyCache, layers: list[Any], lengths: Sequence[int] | None) -> AnyCache:
    other = copy.copy(cache)
    other.layers = layers
    if isinstance(other, MixerCache) and lengths is not None:
        other.align(lengths)
    return other


def _joined_layers(layers: Sequence[Any], lengths: Sequence[int]) -> Any:
    layer = _like(layers[0])
    for name, value in vars(layers[0]).items():
        values = [getattr(one, name) for one in layers]
        if name in ("keys", "values") and isinstance(value, Tensor):
            longest = max(one.shape[-2] for one in values)
            setattr(layer, name, torch.cat([F.pad(one, (0, 0, longest - one.shape[-2], 0)) for one in values]))
        elif name in ("conv_states", "recurrent_states"):
            tensors = {key: [one[key] for one in values] for key in value}
            setattr(layer, name, {key: None if one[0] is None else torch.cat(one) for key, one in tensors.items()})
        elif name == "cumulative_length":
            setattr(layer, name, max(lengths))
    return layer


def _mapped_layer(layer: Any, change: Callable[[Tensor], Tensor], lengths: Sequence[int] | None) -> Any:
    """A layer with every tensor changed, whose rows are then of these lengths; None: of the same."""
    other = _like(layer)
    for name, value in vars(layer).items():
        if name in ("keys", "values") and isinstance(value, Tensor) and value.numel():
            setattr(other, name, change(value if lengths is None else value[..., -max(lengths) :, :]))
        elif name in ("conv_states", "recurrent_states"):
            setattr(other, name, {key: None if one is None else change(one) for key, one in value.items()})
        elif name == "cumulative_length" and lengths is not None:
            setattr(other, name, max(lengths))
    return other


def _cropped_layer(layer: Any, cut: Cut) -> Any:
    other = _like(layer)
    longest = max(cut.lengths)
    for name, value in vars(layer).items():
        if name in ("keys", "values") and isinstance(value, Tensor) and value.numel():
            window = getattr(layer, "sliding_window", None)
            setattr(other, name, cut.tail(value, -2, longest if window is None else min(longest, window - 1)))
        elif name == "conv_states":
            wide = {key: one for key, one in value.items() if one is not None}
            new = {key: cut.tail(one, -1, layer.conv_kernel_size[key]) for key, one in wide.items()}
            setattr(other, name, {**value, **new})
        elif name == "cumulative_length":
            setattr(other, name, longest)
    return other


def _like(layer: Any) -> Any:
    """Another layer with the same flags, to be given tensors of its own."""
    other = copy.copy(layer)
    for name, value in vars(layer).items():
        if isinstance(value, dict):
            setattr(other, name, dict(value))
    return other
