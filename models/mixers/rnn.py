"""The classic gated recurrences, through PyTorch's own modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from remedy.models.cache import MixerCache
from remedy.models.decoder_config import DecoderConfig


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al., 2014) with an output projection."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.rnn = nn.GRU(config.hidden_size, config.hidden_size, batch_first=True)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = cache.get_recurrent_state(self.layer) if cache is not None else None
        y, state = self.rnn(x, stored[None] if stored is not None else None)
        if cache is not None:
            cache.update_recurrent_state(state[0], self.layer)
        return self.out_proj(y)


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997) with an output projection."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.rnn = nn.LSTM(config.hidden_size, config.hidden_size, batch_first=True)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = cache.get_recurrent_state(self.layer) if cache is not None else None
        y, state = self.rnn(x, tuple(s[None].contiguous() for s in stored.unbind(1)) if stored is not None else None)
        if cache is not None:
            cache.update_recurrent_state(torch.cat(state).transpose(0, 1), self.layer)
        return self.out_proj(y)
