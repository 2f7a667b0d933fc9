"""The classic gated recurrences, through PyTorch's own modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from remedy.models.mixers.base import MIXERS, Mixer

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


@MIXERS.register("gru")
class GRU(Mixer):
    """Gated recurrent unit (Cho et al., 2014) with an output projection."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.rnn = nn.GRU(config.hidden_size, config.hidden_size, batch_first=True)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = self.read_state(cache)
        y, state = self.rnn(x, stored[None] if stored is not None else None)
        self.write_state(cache, state[0])
        return self.out_proj(y)

    def state_floats(self) -> tuple[int, int]:
        return self.rnn.hidden_size, 0


@MIXERS.register("lstm")
class LSTM(Mixer):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997) with an output projection."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.rnn = nn.LSTM(config.hidden_size, config.hidden_size, batch_first=True)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = self.read_state(cache)
        y, state = self.rnn(x, tuple(s[None].contiguous() for s in stored.unbind(1)) if stored is not None else None)
        self.write_state(cache, torch.cat(state).transpose(0, 1))
        return self.out_proj(y)

    def state_floats(self) -> tuple[int, int]:
        return 2 * self.rnn.hidden_size, 0
