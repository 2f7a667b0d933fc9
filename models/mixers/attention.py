"""Causal softmax attention with rotary positions or none, through PyTorch's scaled-dot-product attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.mixers.base import MIXERS, Mixer

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


@MIXERS.register("attention")
class Attention(Mixer):
    """Multi-head attention (Vaswani et al., 2017); rotary embedding as in Su et al., "RoFormer", 2021."""

    uses = frozenset({"num_attention_heads", "positions"})
    quadratic = True

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.heads
        self.rotary = config.positions == "rope"
        self.theta = config.rope_theta
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.out_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = self.qkv_proj(x).view(batch, steps, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        past = cache.seen if cache is not None else 0
        padding = cache.padding if cache is not None else None
        if self.rotary:
            cos, sin = self._angles(past, steps, x, padding)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        mask = None
        if past and (steps > 1 or padding is not None):
            mask = torch.ones(steps, past + steps, dtype=torch.bool, device=x.device).tril(past)
        if mask is not None and padding is not None:
            mask = mask & (torch.arange(past + steps) >= padding[:, None]).to(x.device)[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=past == 0 and steps > 1)
        return self.out_proj(y.transpose(1, 2).reshape(batch, steps, width))

    def _angles(self, past: int, steps: int, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cosines and sines (T, D/2) of the positions, or (B, 1, T, D/2) where rows begin at different places."""
        half = self.head_dim // 2
        frequencies = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        positions = torch.arange(past, past + steps, device=x.device, dtype=torch.float32)
        if padding is not None:
            positions = positions - padding.to(x.device)[:, None, None]
        angles = positions[..., None] * frequencies
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
