"""What a model carries from token to token: taken from it, given back to it, and that of several sequences joined in one batch.

Nothing here knows a model by name. A model that hands its state over has a field in its output that its `forward` takes as a
parameter (`past_key_values`, `cache_params`, `state`); one that does not keeps tensors in its modules.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
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
from remedy.models.protocol import CausalLM, CausalLMOutput

JOINABLE = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)
"""Cache layers that hold nothing but keys and values (B, H, T, D) and states with the batch first."""


class CannotJoin(Exception):
    """States of a kind whose batch is not understood."""


class State(NamedTuple):
    """What a model carries: `given`, what its forward takes back, by parameter; `kept`, what its modules hold, by place."""

    given: dict[str, Any]
    kept: dict[tuple[nn.Module, str], Tensor]


class StateKeeper:
    """Calls a model with a state, and hands back the one it leaves."""

    def __init__(self, model: CausalLM) -> None:
        self.model = model
        parameters = inspect.signature(model.forward).parameters
        self.takes = frozenset(parameters)
        open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        self._cached = open_ended or "use_cache" in self.takes
        self._options: dict[str, Any] = {"use_cache": True} if self._cached else {}
        if "logits_to_keep" in self.takes:
            self._options["logits_to_keep"] = 1
        self._places: set[tuple[nn.Module, str]] = set()
        self._hands_over = True

    def parallel(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, V) of one pass over whole sequences (B, T), without a state."""
        return self.model(input_ids=tokens, **({"use_cache": False} if self._cached else {})).logits

    def read(self, tokens: Tensor, state: State | None, **where: Tensor) -> tuple[Tensor, State]:
        """Read tokens (B, T) from a state, or from the beginning: logits (B, V) after the last, and the state then."""
        if state is None:
            for module, name in self._places:  # nothing of an earlier sequence may be left
                setattr(module, name, None)
            output, given = self._begin(tokens)
        else:
            for (module, name), value in state.kept.items():
                setattr(module, name, value)
            output = self.model(input_ids=tokens, **self._options, **state.given, **where)
            given = self._given(output) or state.given
        kept = {(module, name): getattr(module, name) for module, name in self._places}
        return output.logits[:, -1], State(given, kept)

    def _begin(self, tokens: Tensor) -> tuple[CausalLMOutput, dict[str, Any]]:
        if self._hands_over:
            output = self.model(input_ids=tokens, **self._options)
            if given := self._given(output):
                return output, given
            self._hands_over = False
        own = {"past_key_values": DynamicCache(config=self.model.config)} if "past_key_values" in self.takes else {}
        before = self._tensors()
        output = self.model(input_ids=tokens, **self._options, **own)
        replaced = {place for place, value in self._tensors().items() if before.get(place) is not value}
        self._places |= {(m, n) for m, n in replaced if getattr(m, n).shape[:1] == tokens.shape[:1]}
        return output, own

    def _given(self, output: CausalLMOutput) -> dict[str, Any]:
        fields: dict[str, Any] = dict(getattr(output, "items", lambda: ())())
        return {name: value for name, value in fields.items() if name in self.takes and value is not None}

    def _tensors(self) -> dict[tuple[nn.Module, str], Tensor]:
        """Plain attributes of modules that are tensors: neither parameters nor buffers."""
        return {
            (module, name): value
            for _, module in self.model.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor)
        }


def joined(states: Sequence[State], lengths: Sequence[int]) -> State:
    """The state of all sequences as one batch, in order. Keys and values are aligned on the right: a shorter sequence's begin with
    padding, which whoever reads on masks. `lengths`: tokens that each row has read.

    Raises:
        CannotJoin: a part of the states is of no known kind.
    """
    first = states[0]
    given = {name: _joined([state.given[name] for state in states], lengths) for name in first.given}
    kept = {place: torch.cat([state.kept[place] for state in states]) for place in first.kept}
    return State(given, kept)


def has_keys(state: State) -> bool:
    """Whether a part of the state is as long as the sequence, so that rows of different lengths need a mask."""
    caches = [value for value in state.given.values() if isinstance(value, Cache)]
    return any(getattr(layer, "keys", None) is not None for cache in caches for layer in cache.layers)


def _joined(parts: Sequence[Any], lengths: Sequence[int]) -> Any:
    first = parts[0]
    if isinstance(first, Tensor):
        if any(part.shape[1:] != first.shape[1:] for part in parts):
            raise CannotJoin("tensors of different shapes")
        return torch.cat(list(parts))
    if isinstance(first, list | tuple):
        return [_joined(piece, lengths) for piece in zip(*parts, strict=True)]
    if isinstance(first, Cache):
        return _joined_caches(parts, lengths)
    raise CannotJoin(type(first).__name__)


def _joined_caches(parts: Sequence[Any], lengths: Sequence[int]) -> Cache:
    first: Cache = parts[0]
    cache = copy.copy(first)
    cache.layers = [_joined_layers(layers) for layers in zip(*(part.layers for part in parts), strict=True)]
    if isinstance(cache, MixerCache):
        cache.align(lengths)
    elif type(cache) is not DynamicCache:
        raise CannotJoin(type(cache).__name__)
    return cache


def _joined_layers(layers: Sequence[Any]) -> Any:
    first = layers[0]
    if type(first) not in JOINABLE:
        raise CannotJoin(type(first).__name__)
    layer = copy.copy(first)
    for name, value in vars(first).items():
        values = [getattr(one, name) for one in layers]
        if name in ("keys", "values") and isinstance(value, Tensor):
            longest = max(one.shape[-2] for one in values)
            setattr(layer, name, torch.cat([F.pad(one, (0, 0, longest - one.shape[-2], 0)) for one in values]))
        elif name in ("conv_states", "recurrent_states"):
            tensors = {key: [one[key] for one in values] for key in value}
            setattr(layer, name, {key: None if one[0] is None else torch.cat(one) for key, one in tensors.items()})
        elif name == "cumulative_length":
            setattr(layer, name, max(values))
    return layer
