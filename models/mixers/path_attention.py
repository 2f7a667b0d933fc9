"""PaTH attention: a softmax whose positions are what the tokens between a key and a query do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use
from remedy.models.mixers.base import MIXERS, Mixer
from remedy.models.mixers.path import attend
from remedy.models.mixers.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

RANK = 32
"""Channels between a token and the line that it reflects along."""
WINDOW = 3
"""Tokens that the convolution of that line sees."""


@MIXERS.register("path_attention")
class PaTHAttention(Mixer):
    """Attention without positions whose keys are turned by every later token (Yang et al., "PaTH attention", 2025, arXiv 2505.16381).

    A token's matrix I - beta w w^T lies along a line w of low rank, after a convolution over three tokens and of length 1 in each
    head, as in flash-linear-attention (`fla/layers/path_attn.py`). beta is in (0, 2), as published, or with `eigenvalues` positive in
    (0, 1), where no token can be a reflection. A query meets earlier keys as its own token has turned them.

    The convolution has a bias, which is the only difference from there. The forget gate of PaTH-FoX is left out. There is no window:
    past keys keep what the tokens between did to them, so that one that forgets them would have to keep these products.
    """

    uses = frozenset({"num_attention_heads", "eigenvalues"})
    eigenvalues = "signed"

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_dim = width // self.heads
        self.beta_max = 2.0 if self.eigenvalue_range(config.eigenvalues) == "signed" else 1.0
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.w_down, self.w_up = nn.Linear(width, RANK, bias=False), nn.Linear(RANK, width, bias=False)
        self.convolution = ShortConvolution(width, layer, WINDOW)
        self.beta_proj = nn.Linear(width, self.heads, bias=True)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        w = self.convolution(self.w_up(self.w_down(x)), cache)
        q, k, v, w = (
            part.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
            for part in (*self.qkv_proj(x).chunk(3, dim=-1), w)
        )
        w = F.normalize(
            w.float(), dim=-1
        )  # in float32: a rounded line is no unit vector, and a reflection along it none
        beta = self.beta_max * torch.sigmoid(self.beta_proj(x).float()).transpose(1, 2)
        if cache is None:
            y, _ = attend(q, k, v, w, beta)
        else:
            keys, values, real = cache.turned_keys(self.layer)
            y, keys = attend(q, k, v, w, beta, keys, values, real)
            cache.turn_keys(keys, v, self.layer)
        return self.out_proj(y.to(x.dtype).transpose(1, 2).flatten(2))

    def operations(self) -> list[Use]:
        return [Use("path_attention", (self.head_dim,))]

    def state_floats(self) -> tuple[int, int]:
        return 0, 2 * self.heads * self.head_dim

    def sequence_flops(self) -> tuple[float, float]:
        """As attention's for keys and values; and every earlier key is turned: how far it lies along w, and what that takes away."""
        return 0.0, 2.0 * self.state_floats()[1] + 4.0 * self.heads * self.head_dim
