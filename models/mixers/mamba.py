"""Mamba (Gu & Dao, 2023) and Mamba-2 (Dao & Gu, 2024).

Eigenvalues of the transition a are in (0, 1) as published, or in (-1, 1) as 2a - 1 (Grazzi et al., "Unlocking state-tracking in linear
RNNs through negative eigenvalues", 2024).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use, compute
from remedy.models.mixers import MIXERS, READS
from remedy.models.mixers.base import Mixer, step_bias
from remedy.models.mixers.short_convolution import ShortConvolution
from remedy.models.mixers.ssm_scan import selective_scan

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig

EXPAND = 2
"""Factor from the model's width to the state's channels."""


@MIXERS.register("mamba")
class Mamba(Mixer):
    """Selective scan with a diagonal transition that depends on the input."""

    reads = READS["mamba"]
    undecayed = frozenset({"A_log", "D"})
    state_flops = 6.0  # exponent, its product, input and its sum, output (2)

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width, inner, size = config.hidden_size, EXPAND * config.hidden_size, self.setting(config, "state_size")
        rank = math.ceil(width / 16)
        self.sizes = [rank, size, size]
        self.signed = self.eigenvalue_range(config.eigenvalues) == "signed"
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = ShortConvolution(inner, layer)
        self.x_proj = nn.Linear(inner, rank + 2 * size, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        self.dt_proj.bias = nn.Parameter(step_bias(inner))
        self.A_log = nn.Parameter(torch.arange(1.0, size + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u = self.convolution(u, cache)
        low, b, c = self.x_proj(u).split(self.sizes, dim=-1)
        step = F.softplus(self.dt_proj(low).float())
        state = self.read_state(cache)
        y, state = selective_scan(u, step, -self.A_log.float().exp(), b, c, self.signed, state)
        self.write_state(cache, state)
        y = (y + self.D * u).to(x.dtype) * F.silu(gate)
        return self.out_proj(y)

    def initialised(self) -> list[nn.Module]:
        return [self.dt_proj]

    def operations(self) -> list[Use]:
        return [("selective_scan", (*self.A_log.shape, int(self.signed)))]

    def state_floats(self) -> tuple[int, int]:
        return self.A_log.numel(), 0


@MIXERS.register("mamba2")
class Mamba2(Mixer):
    """State-space duality: one transition for all channels of a head."""

    reads = READS["mamba2"]
    undecayed = frozenset({"A_log", "D"})
    state_flops = 5.0  # decay, input and its sum, output (2)

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer)
        width, inner, size = config.hidden_size, EXPAND * config.hidden_size, self.setting(config, "state_size")
        self.heads = EXPAND * config.num_attention_heads
        self.sizes = [inner, size, size]
        self.signed = self.eigenvalue_range(config.eigenvalues) == "signed"
        self.in_proj = nn.Linear(width, 2 * inner + 2 * size + self.heads, bias=False)
        self.convolution = ShortConvolution(inner + 2 * size, layer)
        self.dt_bias = nn.Parameter(step_bias(self.heads))
        self.A_log = nn.Parameter(torch.arange(1.0, self.heads + 1).log())
        self.D = nn.Parameter(torch.ones(self.heads))
        self.norm = nn.RMSNorm(inner, eps=config.rms_norm_eps)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        gate, mixed, step = self.in_proj(x).split([self.sizes[0], sum(self.sizes), self.heads], dim=-1)
        u, b, c = self.convolution(mixed, cache).split(self.sizes, dim=-1)
        u = u.unflatten(-1, (self.heads, -1))
        step = F.softplus(step.float() + self.dt_bias)
        state = self.read_state(cache)
        rates = -self.A_log.float().exp()
        y, state = compute("state_space_duality", u.dtype, u, step, rates, b, c, self.signed, state)
        self.write_state(cache, state)
        y = (y + self.D[..., None] * u).flatten(2).to(x.dtype)
        return self.out_proj(self.norm(y * F.silu(gate)))

    def operations(self) -> list[Use]:
        return [("state_space_duality", (self.heads, self.sizes[0] // self.heads, self.sizes[-1], int(self.signed)))]

    def state_floats(self) -> tuple[int, int]:
        return self.sizes[0] * self.sizes[-1], 0
