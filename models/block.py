"""A layer of the decoder: a mixer and a gated MLP, each behind a norm and beside a residual path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer

from remedy.models.mixers import MIXERS

if TYPE_CHECKING:
    from remedy.models.cache import MixerCache
    from remedy.models.decoder_config import DecoderConfig
    from remedy.models.packing import Packing


class GatedMLP(nn.Module):
    """SwiGLU (Shazeer, "GLU variants improve Transformer", 2020)."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Block(GradientCheckpointingLayer):
    """x + mixer(norm(x)), then x + mlp(norm(x)); shapes (B, T, D).

    With gradient checkpointing its input alone is kept for the backward pass, and the rest computed again.
    """

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.mixer_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mixer = MIXERS[config.mixers[layer % len(config.mixers)]](config, layer)
        self.mlp_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = GatedMLP(config)

    def forward(
        self,
        x: Tensor,
        past_key_values: MixerCache | None = None,
        positions: Tensor | Sequence[Tensor | None] | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """`packing`: of rows that hold several examples, which are laid apart in groups for the mixer; `positions` are then of each."""
        normed = self.mixer_norm(x)
        if packing is None:
            mixed = self._mixed(normed, past_key_values, positions)
        else:
            assert isinstance(positions, Sequence)
            groups = zip(packing.apart(normed), positions, strict=True)
            mixed = packing.together([self._mixed(group, None, places) for group, places in groups])
        x = x + mixed
        return cast(Tensor, x + self.mlp(self.mlp_norm(x)))

    def _mixed(self, x: Tensor, cache: MixerCache | None, positions: Any) -> Tensor:
        return cast(Tensor, self.mixer(x, cache, positions) if self.mixer.positional else self.mixer(x, cache))
