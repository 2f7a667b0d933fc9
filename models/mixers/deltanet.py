"""The delta-rule family: DeltaNet, Gated DeltaNet and DeltaProduct are one module with another transition.

DeltaNet's transition is one generalised Householder matrix a token. Gated DeltaNet lets it decay (Yang, Kautz & Hatamizadeh,
"Gated delta networks", 2024). DeltaProduct takes `n` Householder steps a token (Siems et al., "DeltaProduct", 2025): a product of n
reflections is any permutation of n + 1 things. Output gates and the width of values are by default as in flash-linear-attention
(`fla/layers`: delta_net, gated_deltanet, gated_deltaproduct). Three things differ from there, in all three: keys are as wide as the
model (Gated DeltaNet's authors take 3/4), the convolution and the projection to beta have biases, and queries are not scaled, which the
norm on the output undoes. DeltaProduct has no decay here (there it is an option, on by default).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from remedy.models.kernels import Use
from remedy.models.mixers.base import MIXERS, Mixer
from remedy.models.mixers.delta_rule import delta_rule
from remedy.models.mixers.short_convolution import ShortConvolution

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig


OVERHANG = 0.01
"""How far the sigmoid of `closed` eigenvalues reaches over either end, where it is clipped (as the "hard concrete" distribution of
Louizos, Welling & Kingma, 2018): a sigmoid alone only comes near them. Their gates come back from an end by noise; here the gradient
goes on as if nothing had been clipped (straight through: Bengio, Leonard & Courville, 2013)."""


@MIXERS.register("deltanet")
class DeltaNet(Mixer):
    """Short convolution, L2-normalised keys and queries, the delta rule, a per-head RMSNorm on the output, and where there is an
    output gate its SiLU times that."""

    uses = frozenset({"num_attention_heads", "eigenvalues", "output_gate", "expand_v", "short_convolution"})
    published = {"output_gate": False, "expand_v": 1, "short_convolution": True}
    eigenvalues = "signed"
    ranges = ("positive", "signed", "closed")
    gated: ClassVar[bool] = False
    """Whether the transition decays."""

    def __init__(self, config: DecoderConfig, layer: int, num_householder: int = 1) -> None:
        super().__init__(config, layer)
        width = config.hidden_size
        value_width = width * self.setting(config, "expand_v")
        self.heads = config.num_attention_heads
        self.num_householder = num_householder
        self.head_dims = (width // self.heads, value_width // self.heads)
        self.sizes = [width, num_householder * width, num_householder * value_width]
        eigenvalues = self.eigenvalue_range(config.eigenvalues)
        self.beta_max = 1.0 if eigenvalues == "positive" else 2.0
        self.overhang = OVERHANG if eigenvalues == "closed" else 0.0
        self.qkv_proj = nn.Linear(width, sum(self.sizes), bias=False)
        self.beta_proj = nn.Linear(width, num_householder * self.heads, bias=True)
        convolved = self.setting(config, "short_convolution")
        self.convolution = ShortConvolution(sum(self.sizes), layer) if convolved else None
        self.decay_proj = nn.Linear(width, self.heads, bias=False) if self.gated else None
        if self.gated:
            # As Mamba-2: decay rates between 1 and 16, steps between 0.001 and 0.1.
            step = torch.exp(torch.rand(self.heads) * math.log(100) + math.log(0.001))
            self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1, 16).log())
            self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.out_norm = nn.RMSNorm(self.head_dims[1], eps=config.rms_norm_eps)
        self.out_proj = nn.Linear(value_width, width, bias=False)
        self.gate_proj = nn.Linear(width, value_width, bias=False) if self.setting(config, "output_gate") else None

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        batch, steps, _ = x.shape
        mixed = self.qkv_proj(x)
        mixed = self.convolution(mixed, cache) if self.convolution is not None else F.silu(mixed)
        # Shapes (B, T, 1 or n, H, K or V).
        q, k, v = (
            part.unflatten(-1, (-1, self.heads, size))
            for part, size in zip(mixed.split(self.sizes, dim=-1), (self.head_dims[0], *self.head_dims))
        )
        # In float32: a rounded key is no unit vector, and a reflection by it none.
        q, k = F.normalize(q.float(), dim=-1), F.normalize(k.float(), dim=-1)
        beta = self._beta(x).unflatten(-1, (self.num_householder, self.heads))
        g = self._log_decay(x)
        state = self.read_state(cache)
        q, k, v, beta = (part.flatten(1, 2).transpose(1, 2) for part in (q, k, v, beta))
        y, state = delta_rule(q, k, v, beta, g.transpose(1, 2) if g is not None else None, state)
        self.write_state(cache, state)
        y = self.out_norm(y.to(x.dtype)).transpose(1, 2).reshape(batch, steps, -1)
        if self.gate_proj is not None:
            y = y * F.silu(self.gate_proj(x))
        return self.out_proj(y)

    def operations(self) -> list[Use]:
        return [Use("delta_rule", (*self.head_dims, self.num_householder, int(self.gated)))]

    def state_floats(self) -> tuple[int, int]:
        return self.heads * self.head_dims[0] * self.head_dims[1], 0

    def sequence_flops(self) -> tuple[float, float]:
        """For each number of the state: what the key holds and its correction (2 each) a Householder step, one decay, an output (2)."""
        return (4.0 * self.num_householder + self.gated + 2.0) * self.state_floats()[0], 0.0

    def _beta(self, x: Tensor) -> Tensor:
        share = torch.sigmoid(self.beta_proj(x).float())
        if self.overhang:
            share = share * (1 + 2 * self.overhang) - self.overhang
            share = (
                share + (share.clamp(0, 1) - share).detach()
            )  # clipped, with the gradient of what was: an end is no trap
        return self.beta_max * share

    def _log_decay(self, x: Tensor) -> Tensor | None:
        if self.decay_proj is None:
            return None
        return -self.A_log.float().exp() * F.softplus(self.decay_proj(x).float() + self.dt_bias)


@MIXERS.register("gated_deltanet")
class GatedDeltaNet(DeltaNet):
    """DeltaNet whose state decays before each step."""

    published = {"output_gate": True, "expand_v": 2, "short_convolution": True}
    gated = True
    undecayed = frozenset({"A_log"})


@MIXERS.register("deltaproduct")
class DeltaProduct(DeltaNet):
    """DeltaNet with several Householder steps for each token."""

    uses = DeltaNet.uses | {"num_householder"}
    published = {"output_gate": True, "expand_v": 2, "short_convolution": True}

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__(config, layer, config.num_householder)
