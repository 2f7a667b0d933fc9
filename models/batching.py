"""States of several sequences as one batch: joined, parted again, copied, and cut back to fewer tokens.

Keys and values are aligned on the right: a shorter sequence's begin with padding, which whoever reads on masks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
from remedy.models.states import State

KNOWN = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)
"""Cache layers that hold nothing but keys and values (B, H, T, D) and states with the batch first."""


class CannotJoin(Exception):
    """States of a kind whose batch, or whose tokens, are not understood."""


class Cut(NamedTuple):
    """How much of what was just read stays: of `read` tokens the first `kept` of each row; with them it has read `lengths`."""

    read: int
    kept: list[int]
    lengths: list[int]

    def tail(self, x: Tensor, dim: int, width: int) -> Tensor:
        """Of a tensor that ends with the tokens just read along `dim` (-1 or -2), the last `width` that stay of each row, aligned on
        the right; zero where there are fewer. The tensor is overwritten."""
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


def joined(states: Sequence[State], lengths: Sequence[int]) -> State:
    """The state of all sequences as one batch, in order. `lengths`: tokens that each row has read.

    Raises:
        CannotJoin: a part of the states is of no known kind.
    """
    first = states[0]
    given = {name: _joined([state.given[name] for state in states], lengths) for name in first.given}
    kept = {place: torch.cat([state.kept[place] for state in states]) for place in first.kept}
    return State(given, kept)


def selected(state: State, rows: Sequence[int], lengths: Sequence[int]) -> State:
    """The state of some rows of a batch. `lengths`: tokens that each of these has read.

    Raises:
        CannotJoin: as `joined`.
    """
    given = {name: _mapped(value, lambda x: x[list(rows)], lengths) for name, value in state.given.items()}
    return State(given, {place: value[list(rows)] for place, value in state.kept.items()})


def copied(state: State) -> State:
    """A state that reading on from the other leaves alone."""
    try:
        given = {name: _mapped(value, Tensor.clone, None) for name, value in state.given.items()}
    except CannotJoin:
        given = copy.deepcopy(state.given)
    return State(given, {place: value.clone() for place, value in state.kept.items()})


def cropped(state: State, cut: Cut) -> State:
    """The state without the last tokens that were read.

    Raises:
        CannotJoin: a part of the state is no longer known, as a recurrent state is, or is of no known kind.
    """
    if state.kept:
        raise CannotJoin("states kept in modules")
    given = {}
    for name, value in state.given.items():
        if not isinstance(value, Cache):
            raise CannotJoin(type(value).__name__)
        given[name] = _of_layers(value, [_cropped_layer(layer, cut) for layer in value.layers], cut.lengths)
    return State(given, {})


def _joined(parts: Sequence[Any], lengths: Sequence[int]) -> Any:
    first = parts[0]
    if isinstance(first, Tensor):
        if any(part.shape[1:] != first.shape[1:] for part in parts):
            raise CannotJoin("tensors of different shapes")
        return torch.cat(list(parts))
    if isinstance(first, list | tuple):
        return [_joined(piece, lengths) for piece in zip(*parts, strict=True)]
    if isinstance(first, Cache):
        layers = [_joined_layers(layers, lengths) for layers in zip(*(part.layers for part in parts), strict=True)]
        return _of_layers(first, layers, lengths)
    raise CannotJoin(type(first).__name__)


def _of_layers(cache: Cache, layers: list[Any], lengths: Sequence[int] | None) -> Cache:
    """A cache like this one, of these layers."""
    if type(cache) not in (MixerCache, DynamicCache):
        raise CannotJoin(type(cache).__name__)
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


def _mapped(value: Any, change: Callable[[Tensor], Tensor], lengths: Sequence[int] | None) -> Any:
    """A part of a state with every tensor changed, whose rows are then of these lengths; None: of the same."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return [_mapped(one, change, lengths) for one in value]
    if isinstance(value, Cache):
        return _of_layers(value, [_mapped_layer(layer, change, lengths) for layer in value.layers], lengths)
    raise CannotJoin(type(value).__name__)


def _mapped_layer(layer: Any, change: Callable[[Tensor], Tensor], lengths: Sequence[int] | None) -> Any:
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
        elif name == "recurrent_states" and any(one is not None for one in value.values()):
            raise CannotJoin("a recurrent state")
        elif name == "conv_states":
            wide = {key: one for key, one in value.items() if one is not None}
            new = {key: cut.tail(one, -1, layer.conv_kernel_size[key]) for key, one in wide.items()}
            setattr(other, name, {**value, **new})
        elif name == "cumulative_length":
            setattr(other, name, longest)
    return other


def _like(layer: Any) -> Any:
    """Another layer of the cache, with the same flags, to be given tensors of its own."""
    if type(layer) not in KNOWN:
        raise CannotJoin(type(layer).__name__)
    other = copy.copy(layer)
    for name, value in vars(layer).items():
        if isinstance(value, dict):
            setattr(other, name, dict(value))
    return other
