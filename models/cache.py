"""Caches of a decoder between calls, and their memory.

Keys and values of a batch are aligned on the right: shorter sequences begin with padding, which attention masks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import psutil
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


class GrowingCache(Cache):
    """Cache whose keys and values grow in place, instead of a full copy per token."""

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        layer: Any = self.layers[layer_idx]
        if torch.is_grad_enabled() or type(layer) not in (DynamicLayer, LinearAttentionAndFullAttentionLayer):
            return super().update(key_states, value_states, layer_idx, *args, **kwargs)
        if layer.keys is None or not layer.keys.numel():
            layer.lazy_initialization(key_states, value_states)
            layer.keys, layer.values = key_states[:, :, :0], value_states[:, :, :0]
        layer.keys, layer.values = _appended(layer.keys, key_states), _appended(layer.values, value_states)
        return layer.keys, layer.values


def _appended(past: Tensor, new: Tensor) -> Tensor:
    (batch, heads, length, width), count = past.shape, new.shape[2]
    # If its size agrees with the strides, the storage is a buffer made below, and nothing else.
    room = past.untyped_storage().nbytes() // (past.element_size() * batch * heads * width)
    start = past.storage_offset() // width
    strides = (heads * room * width, room * width, width, 1)
    if length and past.stride() == strides and start + length + count <= room:
        longer = past.as_strided((batch, heads, length + count, width), strides)
    else:
        longer = new.new_empty(batch, heads, length + count + max(64, length // 4), width)[:, :, : length + count]
        longer[:, :, :length] = past
    longer[:, :, length:] = new
    return longer


class GrowingDynamicCache(GrowingCache, DynamicCache):
    """Growing cache of a Transformers model."""


class MixerCache(GrowingCache):
    """Keys and values, convolution windows or recurrent states of each layer, batch first."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[LinearAttentionAndFullAttentionLayer() for _ in range(layers)])
        self.seen = 0
        """Tokens read so far; the decoder advances it once per call."""

        self.padding: Tensor | None = None
        """Padding before each row's first token, (B,); None if all rows have one length."""

    def align(self, lengths: Sequence[int]) -> None:
        """Set the number of tokens that each row has read."""
        self.seen = max(lengths)
        self.padding = torch.tensor([self.seen - length for length in lengths]) if min(lengths) < self.seen else None

    def positions(self, steps: int, device: torch.device) -> Tensor:
        """Return the positions of the next tokens: (T,), or (B, T) if lengths differ."""
        positions = torch.arange(self.seen, self.seen + steps, device=device)
        return positions if self.padding is None else positions - self.padding.to(device)[:, None]

    def token_mask(self, past: int, steps: int, device: torch.device) -> Tensor | None:
        """Mark past and next positions that are no padding; None: all.

        (B, 1, 1, past + steps).
        """
        if self.padding is None:
            return None
        positions = torch.arange(self.seen - past, self.seen + steps, device=device)
        return (positions >= self.padding.to(device)[:, None])[:, None, None]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen

    def forget(self, layer_idx: int, count: int) -> None:
        """Drop all but the last `count` keys and values of a layer.

        While the past is recorded, `cropped` drops them.
        """
        layer: Any = self.layers[layer_idx]
        layer.sliding_window = count + 1
        if layer.record_past:
            return
        start = max(0, layer.keys.shape[-2] - count)
        layer.keys, layer.values = layer.keys[..., start:, :], layer.values[..., start:, :]

    def transformed_keys(self, layer_idx: int) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return a layer's keys and values (B, H, P, D), and their mask.

        (B, 1, 1, P), or None without padding.
        """
        layer: Any = self.layers[layer_idx]
        if not layer.is_initialized:
            return None, None, None
        return layer.keys, layer.values, self.token_mask(layer.keys.shape[-2], 0, layer.keys.device)

    def replace_keys(self, keys: Tensor, new_values: Tensor, layer_idx: int) -> None:
        """Replace all keys of a layer, and append the new tokens' values.

        Raises:
            RuntimeError: the past is recorded.
        """
        layer: Any = self.layers[layer_idx]
        if layer.record_past:
            raise RuntimeError("keys that later tokens have turned cannot be cut back")
        if not layer.is_initialized:
            layer.lazy_initialization(keys, new_values)
            layer.values = new_values
        else:
            layer.values = torch.cat([layer.values, new_values], dim=-2)
        layer.keys = keys

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        # The base class returns None until a convolution window exists, which GRU and LSTM never have.
        layer: Any = self.layers[layer_idx]
        state: Tensor | None = layer.recurrent_states[state_idx]
        return state


KEYS = (DynamicLayer, DynamicSlidingWindowLayer)
"""Cache layers with keys and values (B, H, T, D) only."""
STATES = (
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)
"""Cache layers that also hold states, batch first."""

AnyCache = TypeVar("AnyCache", bound=Cache)


class Cut(NamedTuple):
    """A cut after reading `read` tokens: each row keeps its first `keep`.

    `lengths`: tokens of each row after the cut.
    """

    read: int
    keep: list[int]
    lengths: list[int]

    def tail(self, x: Tensor, dim: int, width: int) -> Tensor:
        """Return the last `width` kept tokens of each row along `dim`, after zeros.

        `x` ends with the call's tokens, aligned on the right, and is overwritten.
        """
        ends = [x.shape[dim] - self.read + count for count in self.keep]
        missing = max(0, width - max(ends))
        if missing:
            x, ends = F.pad(x, (missing, 0) if dim == -1 else (0, 0, missing, 0)), [end + missing for end in ends]
        last = max(ends)
        tail = x.narrow(dim, last - width, width)
        for end in set(ends) - {last}:  # only these rows are copied: gathering all takes three times as long
            rows = [row for row, row_end in enumerate(ends) if row_end == end]
            available = min(width, end)
            tail.narrow(dim, width - available, available)[rows] = x.narrow(dim, end - available, available)[rows]
            if available < width:
                tail.narrow(dim, 0, width - available)[rows] = 0.0
        return tail


def is_batchable(cache: object) -> bool:
    return type(cache) in (MixerCache, GrowingDynamicCache) and all(type(x) in KEYS + STATES for x in cache.layers)  # type: ignore[attr-defined]


def has_keys(cache: Cache) -> bool:
    return any(getattr(layer, "keys", None) is not None for layer in cache.layers)


def joined(caches: Sequence[AnyCache], lengths: Sequence[int]) -> AnyCache:
    """Join caches. `lengths`: tokens that each row has read."""

    def aligned(*parts: Tensor) -> Tensor:
        longest = max(part.shape[-2] for part in parts)
        return torch.cat([F.pad(part, (0, 0, longest - part.shape[-2], 0)) for part in parts])

    return _rebuilt(caches, lambda layer: aligned, lambda *parts: torch.cat(parts), lengths)


def selected(cache: AnyCache, rows: Sequence[int], lengths: Sequence[int]) -> AnyCache:
    """Select rows of a cache. `lengths`: tokens that each has read."""
    chosen, longest = list(rows), max(lengths)
    return _rebuilt([cache], lambda layer: lambda x: x[..., -longest:, :][chosen], lambda x: x[chosen], lengths)


def copied(cache: AnyCache) -> AnyCache:
    return _rebuilt([cache], lambda layer: Tensor.clone, Tensor.clone, None)


def cropped(cache: AnyCache, cut: Cut) -> AnyCache:
    """Cut the last tokens off a cache that recorded its past."""
    longest = max(cut.lengths)

    def keys_of(layer: Any) -> Callable[[Tensor], Tensor]:
        window = getattr(layer, "sliding_window", None)
        return lambda x: cut.tail(x, -2, longest if window is None else min(longest, window - 1))

    result = _rebuilt([cache], keys_of, lambda x: x, cut.lengths)
    layers: list[Any] = [layer for layer in result.layers if hasattr(layer, "conv_states")]
    for layer in layers:
        states, widths = layer.conv_states, layer.conv_kernel_size
        layer.conv_states = {k: x if x is None else cut.tail(x, -1, widths[k]) for k, x in states.items()}
    return result


def _rebuilt(
    caches: Sequence[AnyCache],
    keys_of: Callable[[Any], Callable[..., Tensor]],
    states: Callable[..., Tensor],
    lengths: Sequence[int] | None,
) -> AnyCache:
    """Make a cache like the first from all. `keys_of`: a layer's function of keys and values; `lengths` None: unchanged."""
    result = copy.copy(caches[0])
    result.layers = []
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        layer: Any = copy.copy(layers[0])
        for name, value in vars(layers[0]).items():
            values = [getattr(member, name) for member in layers]
            if name in ("keys", "values") and isinstance(value, Tensor) and value.ndim > 1:
                setattr(layer, name, keys_of(layer)(*values))
            elif name in ("conv_states", "recurrent_states"):
                tensors = {k: x if x is None else states(*(member[k] for member in values)) for k, x in value.items()}
                setattr(layer, name, tensors)
            elif isinstance(value, dict):
                setattr(layer, name, dict(value))
            elif name == "cumulative_length" and lengths is not None:
                setattr(layer, name, max(lengths))
        result.layers.append(layer)
    if isinstance(result, MixerCache) and lengths is not None:
        result.align(lengths)
    return result


# Share of free memory for caches: those before and after a call, and a copy to join, select or crop them.
SHARE = 0.25


class Footprint(NamedTuple):
    """Bytes of a row's cache, and of each token in it."""

    row: float = 0.0
    token: float = 0.0

    def of(self, tokens: int) -> float:
        """Return the bytes of a row of `tokens` tokens; with windows, an upper bound."""
        return self.row + tokens * self.token


def footprint(short: tuple[int, Cache], long: tuple[int, Cache]) -> Footprint:
    """Compute the footprint from caches of one sequence at two lengths."""
    (few, before), (many, after) = ((length, sum(cache_bytes(cache).values())) for length, cache in (short, long))
    token = max(0.0, (after - before) / (many - few))
    return Footprint(before - few * token, token)


def cache_bytes(cache: Cache) -> dict[torch.device, int]:
    by_device: dict[torch.device, int] = {}
    for tensor in (part for layer in cache.layers for value in vars(layer).values() for part in _tensors(value)):
        by_device[tensor.device] = by_device.get(tensor.device, 0) + tensor.numel() * tensor.element_size()
    return by_device


def available_bytes(cache: Cache) -> float:
    """Return the bytes that caches like this may take until one device is full."""
    parts = cache_bytes(cache)
    total = sum(parts.values())
    return min(_free(device) * total / part for device, part in parts.items() if part)


def _free(device: torch.device) -> float:
    if device.type != "cuda":
        return SHARE * float(psutil.virtual_memory().available)
    free, _ = torch.cuda.mem_get_info(device)
    return SHARE * (free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from (tensor for tensor in value.values() if isinstance(tensor, Tensor))
