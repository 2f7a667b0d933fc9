"""Classic gated recurrences, computed by PyTorch's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from remedy.models.mixers import MIXERS
from remedy.models.mixers.base import Mixer

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


CUDNN_WITH_BF16 = 91300
"""First version of cuDNN with recurrent layers in bfloat16; before it, PyTorch launches a kernel per token."""


class Recurrent(Mixer):
    """A recurrent PyTorch module with `states` state vectors, and an output projection."""

    kind: ClassVar[type[nn.GRU] | type[nn.LSTM]]
    states: ClassVar[int]

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.rnn = self.kind(config.hidden_size, config.hidden_size, batch_first=True)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def state_floats(self) -> tuple[int, int]:
        return self.states * self.rnn.hidden_size, 0

    def own_path(self, device: torch.device, dtype: torch.dtype) -> str:
        if device.type != "cuda" or dtype != torch.bfloat16 or has_bf16():
            return super().own_path(device, dtype)
        return f"PyTorch's own, under autocast in float32 (cuDNN {torch.backends.cudnn.version()} has none in bf16)"

    def run(self, x: Tensor, state: Any) -> Any:
        """Run the module; under bfloat16 autocast in float32 if cuDNN lacks bfloat16."""
        kind = x.device.type
        if kind != "cuda" or not torch.is_autocast_enabled(kind) or torch.get_autocast_dtype(kind) != torch.bfloat16:
            return self.rnn(x, state)
        with torch.autocast(kind, enabled=has_bf16()):
            return self.rnn(x if has_bf16() else x.float(), state)


def has_bf16() -> bool:
    return (torch.backends.cudnn.version() or 0) >= CUDNN_WITH_BF16


@MIXERS.register("gru")
class GRU(Recurrent):
    """Gated recurrent unit (Cho et al., 2014) with an output projection."""

    kind, states = nn.GRU, 1

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = self.read_state(cache)
        y, state = self.run(x, stored[None] if stored is not None else None)
        self.write_state(cache, state[0])
        return self.out_proj(y)


@MIXERS.register("lstm")
class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997) with an output projection."""

    kind, states = nn.LSTM, 2

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        stored = self.read_state(cache)
        y, state = self.run(x, tuple(s[None].contiguous() for s in stored.unbind(1)) if stored is not None else None)
        self.write_state(cache, torch.cat(state).transpose(0, 1))
        return self.out_proj(y)
