"""A mixer of your own: every token sees the mean of those up to it.

How to add: write a subclass of `Mixer`, register it, give this file by `--plugin`, and name it in `model.mixers`.
With a cache it starts from its state and leaves one behind; both ways must give the same outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from remedy.models.mixers import MIXERS
from remedy.models.mixers.base import Mixer

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


@MIXERS.register("average")
class Average(Mixer):
    """Mean of all tokens so far, scaled by one number for each channel."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.scale = nn.Parameter(torch.ones(config.hidden_size))

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        state = self.read_state(cache)
        past = torch.zeros_like(x[:, :1]) if state is None else state[:, None, :-1]
        seen = torch.zeros_like(x[:, :1, :1]) if state is None else state[:, None, -1:]
        total = past + x.cumsum(1)
        count = seen + torch.arange(1, x.shape[1] + 1, device=x.device)[None, :, None]
        self.write_state(cache, torch.cat([total, count], -1)[:, -1])
        return self.scale * total / count
