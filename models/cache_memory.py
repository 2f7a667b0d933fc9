"""What a row takes of memory while it is read, measured, and how much memory there is: as many rows are read together as have room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import psutil
import torch
from torch import Tensor

from remedy.models.states import State

SHARE = 0.25
"""How much of the free memory states may take: while a batch is read, the states before and after it are there, and a third time where
they are joined, parted or cut."""


class Footprint(NamedTuple):
    """Bytes that a row's state takes, and those that every token adds to it."""

    row: float
    token: float

    def of(self, tokens: int) -> float:
        """Bytes of the state of a row of so many tokens. Of a window they are fewer: it is not known here."""
        return self.row + tokens * self.token


def footprint(short: tuple[int, State], long: tuple[int, State]) -> Footprint:
    """The footprint of a model of which the states of one sequence after fewer and after more tokens are known."""
    (few, before), (many, after) = short, long
    token = max(0.0, (state_bytes(after) - state_bytes(before)) / (many - few))
    return Footprint(state_bytes(before) - few * token, token)


def state_bytes(state: State) -> int:
    """Bytes of all tensors of a state."""
    return sum(
        tensor.numel() * tensor.element_size() for tensor in _tensors([state.given, *state.kept.values()], set())
    )


def shares(state: State) -> dict[torch.device, float]:
    """How much of a state lies on each device: each layer's lies where the layer does."""
    found: dict[torch.device, float] = {}
    for tensor in _tensors([state.given, *state.kept.values()], set()):
        found[tensor.device] = found.get(tensor.device, 0.0) + tensor.numel() * tensor.element_size()
    whole = sum(found.values())
    return {device: size / whole for device, size in found.items()} if whole else {}


def room(shares: Mapping[torch.device, float]) -> float:
    """Bytes that states may take in all, of which each device holds a share: until one of them has no more room."""
    return min(_room_on(device) / share for device, share in shares.items() if share)


def _room_on(device: torch.device) -> float:
    """Bytes that states may take on a device now."""
    if device.type != "cuda":
        return SHARE * float(psutil.virtual_memory().available)
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return SHARE * (free + unused)


def _tensors(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """The tensors of a state, each once, whatever holds them."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one, seen)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module | type):
        yield from _tensors(vars(value), seen)
