"""RWKV-7's time mixing (Peng et al., "RWKV-7 Goose with expressive dynamic state evolution", 2025, arXiv 2503.14456, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use
from remedy.models.mixers.base import MIXERS, Mixer
from remedy.models.mixers.wkv import LOWEST, wkv

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

SHIFTED = ("r", "w", "k", "v", "a", "g")
"""What each sees of the token before: receptance, decay, key, value, in-context learning rate, gate."""


class LowRank(nn.Module):
    """A projection (..., D) -> (..., D) through `scale` sqrt(D) channels, to the nearest 32 and at least that many.

    The first weights begin at zero, so that what it gives is its bias, and the second orthogonal, of length 0.1.
    """

    def __init__(
        self, width: int, scale: float, activation: Callable[[Tensor], Tensor] | None, bias: bool = True
    ) -> None:
        super().__init__()
        rank = max(32, round(scale * width**0.5 / 32) * 32)
        self.activation = activation
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=bias)
        nn.init.zeros_(self.down.weight)
        nn.init.orthogonal_(self.up.weight, gain=0.1 * max(1.0, (rank / width) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        low = self.down(x)
        return cast(Tensor, self.up(low if self.activation is None else self.activation(low)))


@MIXERS.register("rwkv7")
class RWKV7(Mixer):
    """Every input is a mean of the token and the one before it, with a weight for each channel; decay w, learning rate a and gate are
    of low rank; the state follows the generalised delta rule (`wkv`); a norm of each head, a bonus of the token itself, and the gate.

    With k the key and kappa = k * k_k, of length 1 in each head, what is written is k (1 + k_a (a - 1)), and what is removed lies
    along kappa. w is between exp(-e^-0.5) = 0.545 and 1 and a between 0 and 1, so the transition diag(w) - kappa^T (a * kappa) has
    eigenvalues between -0.455 and 1: it is similar to the symmetric diag(w) - z^T z with z = sqrt(a) * kappa.
    Initial values of what is not a plain projection, and ranks, are the authors' (RWKV-LM, v7; `fla/layers/rwkv7.py`).

    Two things differ from the paper. The value residual, which mixes the first layer's values into every other's, is left out: it
    crosses layers, and a mixer here sees its own layer alone, be its neighbours what they may. And the MLP beside it is the decoder's.
    """

    uses = frozenset({"num_attention_heads"})
    undecayed = frozenset({*(f"shift_{name}" for name in SHIFTED), "k_k", "k_a", "r_k"})

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.head_dim = width // self.heads
        self.r_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        wide = self.head_dim / 64
        self.w_lora = LowRank(width, 2.5 * wide, torch.tanh)
        self.a_lora = LowRank(width, 2.5 * wide, None)
        self.g_lora = LowRank(width, 5.0, torch.sigmoid, bias=False)
        self.out_norm = nn.GroupNorm(self.heads, width, eps=self.head_dim * config.rms_norm_eps)
        for name in SHIFTED:
            self.register_parameter(f"shift_{name}", nn.Parameter(torch.empty(width)))
        self.k_k, self.k_a = nn.Parameter(torch.empty(width)), nn.Parameter(torch.full((width,), 1.02))
        self.r_k = nn.Parameter(torch.full((self.heads, self.head_dim), -0.04))
        self._begin(layer, config.num_hidden_layers)

    @torch.no_grad()
    def _begin(self, layer: int, layers: int) -> None:
        """Initial values that differ by channel and layer."""
        width = len(self.k_k)
        channel = torch.arange(width)
        place = channel / (width - 1)
        zigzag = 2 * channel.remainder(self.head_dim) / (self.head_dim - 1) - 1
        zigzag = zigzag * zigzag.abs()
        for name, power in zip(SHIFTED, (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)):
            self.get_parameter(f"shift_{name}").copy_(1 - (channel / width) ** (power * (1 - layer / layers)))
        depth = layer / max(1, layers - 1)
        self.k_k.copy_(0.71 - 0.1 * (place - 0.5))
        self.w_lora.up.bias.copy_(-5.5 + 6 * place ** (1 + depth**0.3) + 2.5 * zigzag)
        self.a_lora.up.bias.copy_(-0.19 + 0.3 * zigzag + 0.4 * (place - 0.5))
        self.out_norm.weight.fill_(((layer + 1) / layers) ** 0.7)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        before = self._before(x, cache) - x
        shifted = {name: x + before * getattr(self, f"shift_{name}") for name in SHIFTED}
        r, k, v = self.r_proj(shifted["r"]), self.k_proj(shifted["k"]), self.v_proj(shifted["v"])
        # In float32: a rounded decay is another one at every step.
        g = LOWEST * torch.sigmoid(self.w_lora(shifted["w"]).float())
        rate = torch.sigmoid(self.a_lora(shifted["a"]).float())
        removed = F.normalize(self._heads((k * self.k_k).float()), dim=-1)
        k = k * (1 + (rate - 1) * self.k_a).to(k.dtype)
        r, g, k, v, rate = (self._heads(part) for part in (r, g, k, v, rate))
        state = self.read_state(cache)
        y, state = wkv(r, g, k, v, -removed, removed * rate, state)
        self.write_state(cache, state)
        y = self.out_norm(y.to(x.dtype).transpose(1, 2).flatten(0, 1).flatten(1)).view_as(x)
        r, k, v = (part.transpose(1, 2) for part in (r, k, v))
        bonus = (r * self.r_k * k).sum(-1, keepdim=True)
        y = y + (bonus * v).flatten(2)
        return self.out_proj(y * self.g_lora(shifted["g"]))

    def initialised(self) -> list[nn.Module]:
        return [part for lora in (self.w_lora, self.a_lora, self.g_lora) for part in (lora.down, lora.up)]

    def operations(self) -> list[Use]:
        return [Use("wkv", (self.head_dim, self.head_dim))]

    def state_floats(self) -> tuple[int, int]:
        return self.heads * self.head_dim**2, 0

    def sequence_flops(self) -> tuple[float, float]:
        """For each number of the state: what is removed, where that goes and what is written (2 each), a decay, an output (2)."""
        return 9.0 * self.state_floats()[0], 0.0

    def _before(self, x: Tensor, cache: MixerCache | None) -> Tensor:
        """The token before each, (B, T, D): zero before the first, and the cache's last one before those that follow it."""
        if cache is None:
            return F.pad(x, (0, 0, 1, -1))
        read = cache.update_conv_state(x.transpose(1, 2), self.layer, conv_kernel_size=1)
        return F.pad(read, (1, -1))[..., -x.shape[1] :].transpose(1, 2)

    def _heads(self, x: Tensor) -> Tensor:
        """(B, T, D) as (B, H, T, K)."""
        return x.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
