"""State-space mixers, wrapped from Transformers, which has a CPU path for both.

Mamba (Gu & Dao, 2023) runs its selective scan in parallel through mambapy; Mamba-2 (Dao & Gu, 2024) in its chunked form.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import Mamba2Config, MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

from remedy.models.cache import MixerCache
from remedy.models.checkpoint import RemedyConfig


class Mamba(nn.Module):
    """Selective scan with a diagonal, input-dependent transition in (0, 1)."""

    def __init__(self, config: RemedyConfig, layer: int) -> None:
        super().__init__()
        settings = MambaConfig(
            hidden_size=config.hidden_size,
            state_size=config.state_size,
            num_hidden_layers=config.num_hidden_layers,
            use_mambapy=True,
        )
        self.inner = MambaMixer(settings, layer)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        return self.inner(x, cache_params=cache)


class Mamba2(nn.Module):
    """State-space duality: a scalar transition per head."""

    def __init__(self, config: RemedyConfig, layer: int) -> None:
        super().__init__()
        heads = 2 * config.num_attention_heads
        settings = Mamba2Config(
            hidden_size=config.hidden_size,
            num_heads=heads,
            head_dim=2 * config.hidden_size // heads,
            state_size=config.state_size,
            n_groups=1,
            chunk_size=64,
            num_hidden_layers=config.num_hidden_layers,
        )
        self.inner = Mamba2Mixer(settings, layer)

    def forward(self, x: Tensor, cache: MixerCache | None = None) -> Tensor:
        return self.inner(x, cache_params=cache)
