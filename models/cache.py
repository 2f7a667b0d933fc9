"""The state a decoder carries between calls: one Transformers cache layer per decoder layer, able to hold any mixer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, LinearAttentionAndFullAttentionLayer


class MixerCache(Cache):
    """Keys and values, convolution windows or recurrent states, whichever each layer's mixer stores; batch comes first."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[LinearAttentionAndFullAttentionLayer() for _ in range(layers)])
        self.seen = 0
        """Tokens read so far; the decoder advances it once per call."""

        self.padding: Tensor | None = None
        """Places before each row's first token, (B,), where rows of different lengths are in one batch; None: there are none."""

    def align(self, lengths: Sequence[int]) -> None:
        """Hold rows that have read `lengths` tokens, their keys aligned on the right."""
        self.seen = max(lengths)
        self.padding = torch.tensor([self.seen - length for length in lengths]) if min(lengths) < self.seen else None

    def take(self, other: MixerCache) -> None:
        """Hold what another cache holds."""
        self.layers, self.seen, self.padding = other.layers, other.seen, other.padding

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Hold these rows, in this order; a row may come several times."""
        super().reorder_cache(beam_idx)
        self.padding = None if self.padding is None else self.padding[beam_idx.to(self.padding.device)]

    def places(self, steps: int, device: torch.device) -> Tensor:
        """Count the tokens before each of the next in its own row: (T,), or (B, T) where rows are of different lengths."""
        places = torch.arange(self.seen, self.seen + steps, device=device)
        return places if self.padding is None else places - self.padding.to(device)[:, None]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen

    def forget(self, layer_idx: int, kept: int) -> None:
        """Drop all keys and values of a layer but the last `kept`; where the past is recorded, once that is cropped."""
        layer: Any = self.layers[layer_idx]
        layer.sliding_window = kept + 1
        if layer.record_past:
            return
        start = max(0, layer.keys.shape[-2] - kept)
        layer.keys, layer.values = layer.keys[..., start:, :], layer.values[..., start:, :]

    def turned_keys(self, layer_idx: int) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Keys and values (B, H, P, D) of a layer whose keys every token changes, and which places are tokens, (B, 1, 1, P)."""
        layer: Any = self.layers[layer_idx]
        if not layer.is_initialized:
            return None, None, None
        kept = layer.keys.shape[-2]
        if self.padding is None:
            return layer.keys, layer.values, None
        places = torch.arange(self.seen - kept, self.seen, device=layer.keys.device)
        return layer.keys, layer.values, (places >= self.padding.to(places.device)[:, None])[:, None, None]

    def turn_keys(self, keys: Tensor, new_values: Tensor, layer_idx: int) -> None:
        """Leave other keys in place of all those of a layer, and the values of the tokens that are new.

        Raises:
            RuntimeError: tokens are to be cut off later, which cannot be taken back from the keys before them.
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
        # The base class answers only once a convolution window exists, which GRU and LSTM do not have.
        layer: Any = self.layers[layer_idx]
        state: Tensor | None = layer.recurrent_states[state_idx]
        return state
