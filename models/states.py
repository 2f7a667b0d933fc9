"""What a model carries from token to token: taken from it, and given back to it.

Nothing here knows a model by name. A model that hands its state over has a field in its output that its `forward` takes as a
parameter (`past_key_values`, `cache_params`, `state`); one that does not keeps tensors in its modules.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import Cache

from remedy.models.protocol import CausalLM, CausalLMOutput


class State(NamedTuple):
    """What a model carries: `given`, what its forward takes back, by parameter; `kept`, what its modules hold, by place."""

    given: dict[str, Any]
    kept: dict[tuple[nn.Module, str], Tensor]


class StateKeeper:
    """Calls a model with a state, and hands back the one it leaves.

    `recording`: states that drop what lies outside a window or a convolution's width keep it until `cropped` of
    `models/batching.py` is asked how much of what was read stays.
    """

    def __init__(self, model: CausalLM) -> None:
        self.model = model
        self.recording = False
        self.calls = 0
        """How often the model was called."""
        self.tokens = 0
        """Tokens that it read in all, padding included."""
        parameters = inspect.signature(model.forward).parameters
        self.takes = frozenset(parameters)
        open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
        self._cached = open_ended or "use_cache" in self.takes
        self._options: dict[str, Any] = {"use_cache": True} if self._cached else {}
        self._places: set[tuple[nn.Module, str]] = set()
        self._hands_over = True

    def parallel(self, tokens: Tensor, keep: int = 0) -> Tensor:
        """Logits (B, T, V) of one pass over whole sequences (B, T), without a state; `keep`: of the last tokens alone."""
        options: dict[str, Any] = {"use_cache": False} if self._cached else {}
        logits = self._call(tokens, keep, **options).logits
        return logits[:, -keep:] if keep else logits

    def read(self, tokens: Tensor, state: State | None, keep: int = 1, **where: Tensor) -> tuple[Tensor, State]:
        """Read tokens (B, T) from a state, or from the beginning: logits (B, keep, V) after the last ones, and the state then."""
        if state is None:
            for module, name in self._places:  # nothing of an earlier sequence may be left
                setattr(module, name, None)
            output, given = self._begin(tokens, keep)
        else:
            for (module, name), value in state.kept.items():
                setattr(module, name, value)
            output = self._call(tokens, keep, **self._options, **state.given, **where)
            given = self._given(output) or state.given
        kept = {(module, name): getattr(module, name) for module, name in self._places}
        return output.logits[:, -keep:], State(given, kept)

    def _call(self, tokens: Tensor, keep: int, **options: Any) -> CausalLMOutput:
        self.calls += 1
        self.tokens += tokens.numel()
        if keep and "logits_to_keep" in self.takes:
            options["logits_to_keep"] = keep
        return self.model(input_ids=tokens, **options)

    def _begin(self, tokens: Tensor, keep: int) -> tuple[CausalLMOutput, dict[str, Any]]:
        if self.recording:
            cache = self._new_cache()
            cache.activate_past_recording()
            return self._call(tokens, keep, **self._options, past_key_values=cache), {"past_key_values": cache}
        if self._hands_over:
            output = self._call(tokens, keep, **self._options)
            if given := self._given(output):
                return output, given
            self._hands_over = False
        own = {"past_key_values": self._new_cache()} if "past_key_values" in self.takes else {}
        before = self._tensors()
        output = self._call(tokens, keep, **self._options, **own)
        replaced = {place for place, value in self._tensors().items() if before.get(place) is not value}
        self._places |= {(m, n) for m, n in replaced if getattr(m, n).shape[:1] == tokens.shape[:1]}
        return output, own

    def _new_cache(self) -> Cache:
        make: Any = getattr(self.model, "new_cache", None)
        return make() if make is not None else DynamicCache(config=self.model.config)

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


def has_keys(state: State) -> bool:
    """Whether a part of the state is as long as the sequence, so that rows of different lengths need a mask."""
    caches = [value for value in state.given.values() if isinstance(value, Cache)]
    return any(getattr(layer, "keys", None) is not None for cache in caches for layer in cache.layers)
