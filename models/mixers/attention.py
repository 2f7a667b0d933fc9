"""Causal softmax attention over all earlier tokens or a window of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.mixers import MIXERS, READS
from remedy.models.mixers.base import Mixer
from remedy.models.mixers.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

BLOCKS = 4
"""Number of windows from which a sequence is read by blocks; one shared mask is faster for shorter ones."""


@MIXERS.register("attention")
class Attention(Mixer):
    """Multi-head attention (Vaswani et al., 2017) with rotary embeddings (Su et al., "RoFormer", 2021).

    A window of w shows a token itself and w - 1 before it (Child et al., "Sparse Transformers", 2019; Jiang et al., "Mistral 7B",
    2023). `qk_norm` is an RMSNorm before the rotation (Henry et al., "Query-key normalization", 2020; as in Qwen3). The short
    convolution has no activation (So et al., "Primer", 2021).
    """

    reads = READS["attention"]
    positional = True
    state_flops = 2.0  # a product and a sum for each number in keys and values (Chowdhery et al., "PaLM", 2022)

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_dim = width // self.heads
        self.rotary = of_layer(config.positions, layer) != "none"
        self.theta = config.rope_theta
        self.window = of_layer(config.window, layer)
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)
        convolved = self.setting(config, "short_convolution")
        self.convolution = ShortConvolution(3 * width, layer, activation=None) if convolved else None
        self.q_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps) if config.qk_norm else None
        self.k_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps) if config.qk_norm else None

    def forward(self, x: Tensor, cache: MixerCache | None = None, positions: Tensor | None = None) -> Tensor:
        batch, steps, width = x.shape
        mixed = self.qkv_proj(x)
        if self.convolution is not None:
            # The CPU's fast attention needs contiguous tensors; without it attention is 8 times slower.
            mixed = self.convolution(mixed, cache).contiguous()
        q, k, v = mixed.view(batch, steps, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary:
            if positions is None:
                positions = torch.arange(steps, device=x.device) if cache is None else cache.positions(steps, x.device)
            cos, sin = self._angles(positions, x)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
            if self.window is not None:
                cache.forget(self.layer, self.window - 1)
        return self.out_proj(self._attend(q, k, v, cache).transpose(1, 2).reshape(batch, steps, width))

    def state_floats(self) -> tuple[int, int]:
        """Count keys and values of a full window, or of every token."""
        per_token = 2 * self.heads * self.head_dim
        return (0, per_token) if self.window is None else (self.window * per_token, 0)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, cache: MixerCache | None) -> Tensor:
        steps, earlier = q.shape[2], k.shape[2] - q.shape[2]
        padded = cache is not None and cache.padding is not None
        if self.window is not None and steps > BLOCKS * self.window and not earlier and not padded:
            return windowed_attention(q, k, v, self.window)
        mask = self._mask(earlier, steps, cache, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and steps > 1)

    def _mask(self, past: int, steps: int, cache: MixerCache | None, device: torch.device) -> Tensor | None:
        """Mark the keys (columns) that each new token (row) sees; None: all up to itself.

        (T, S), or (B, 1, T, S) with padding.
        """
        narrow = self.window is not None and past + steps > self.window
        tokens = cache.token_mask(past, steps, device) if cache is not None else None
        if tokens is None and not narrow and (steps == 1 or past == 0):
            return None
        mask = torch.ones(steps, past + steps, dtype=torch.bool, device=device).tril(past)
        if self.window is not None:
            mask = mask.triu(past + 1 - self.window)
        return mask if tokens is None else mask & tokens

    def _angles(self, positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, (T, K / 2) or (B, 1, T, K / 2)."""
        half = self.head_dim // 2
        frequencies = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        by_head = positions if positions.ndim == 1 else positions[:, None]
        angles = by_head[..., None].float() * frequencies
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def of_layer(chosen: Any, layer: int) -> Any:
    """Return a layer's value of a setting, which may be a repeated list."""
    return chosen[layer % len(chosen)] if isinstance(chosen, (list, tuple)) else chosen


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def windowed_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Attend causally within a window: q, k, v (B, H, T, K).

    Blocks of `window` tokens see themselves and the block before (Beltagy, Peters & Cohan, "Longformer", 2020, section 3.2).
    """
    batch, heads, steps = q.shape[:3]
    blocks = -(-steps // window)
    q, k, v = (
        F.pad(x, (0, 0, 0, blocks * window - steps)).reshape(batch, heads, blocks, window, -1) for x in (q, k, v)
    )
    k, v = (torch.cat([F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1], x], dim=3) for x in (k, v))
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    seen = torch.ones(window, 2 * window, dtype=torch.bool, device=q.device).tril(window).triu(1).repeat(blocks, 1, 1)
    seen[0, :, :window] = False  # the first block has none before it
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen.repeat(batch, 1, 1)[:, None])
    return (
        y.view(batch, blocks, heads, window, -1)
        .transpose(1, 2)
        .reshape(batch, heads, blocks * window, -1)[:, :, :steps]
    )
