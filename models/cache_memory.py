"""Memory that a row's cache takes while it is read, measured, and how much is free: as many rows are read together as fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil
import torch
from torch import Tensor
from transformers.cache_utils import Cache

SHARE = 0.25
"""How much of the free memory caches may take: while a batch is read, those before and after it are there, and a third time where
they are joined, parted or cut."""


class Footprint(NamedTuple):
    """Bytes that a row's cache takes, and those that every token adds to it."""

    row: float = 0.0
    token: float = 0.0

    def of(self, tokens: int) -> float:
        """Bytes of the cache of a row of so many tokens. Of a window they are fewer: it is not known here."""
        return self.row + tokens * self.token


def footprint(short: tuple[int, Cache], long: tuple[int, Cache]) -> Footprint:
    """The footprint of a model of which the caches of one sequence after fewer and after more tokens are known."""
    (few, before), (many, after) = ((length, sum(cache_bytes(cache).values())) for length, cache in (short, long))
    token = max(0.0, (after - before) / (many - few))
    return Footprint(before - few * token, token)


def cache_bytes(cache: Cache) -> dict[torch.device, int]:
    """Bytes of all tensors of a cache on each device: each layer's lie where the layer does."""
    found: dict[torch.device, int] = {}
    for tensor in (one for layer in cache.layers for value in vars(layer).values() for one in _tensors(value)):
        found[tensor.device] = found.get(tensor.device, 0) + tensor.numel() * tensor.element_size()
    return found


def available_bytes(cache: Cache) -> float:
    """Bytes that caches like this one may take in all, until one of its devices is full."""
    parts = cache_bytes(cache)
    whole = sum(parts.values())
    return min(_free(device) * whole / part for device, part in parts.items() if part)


def _free(device: torch.device) -> float:
    if device.type != "cuda":
        return SHARE * float(psutil.virtual_memory().available)
    free, _ = torch.cuda.mem_get_info(device)
    return SHARE * (free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from (one for one in value.values() if isinstance(one, Tensor))
