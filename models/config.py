"""Settings of the decoder as the user writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MixerName = Literal["attention", "mamba", "mamba2", "deltanet", "gru", "lstm"]


class ModelConfig(BaseModel):
    """A decoder. `mixers` is repeated over the layers: `[attention, deltanet]` is a hybrid.

    `positions`: rotary or none (attention only). `eigenvalues`: the range of DeltaNet's transition eigenvalues; `signed`
    is [-1, 1] (Grazzi et al., "Unlocking state-tracking in linear RNNs through negative eigenvalues", 2024).
    `state_size`: Mamba's and Mamba-2's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mixers: tuple[MixerName, ...] = Field(default=("attention",), min_length=1)
    layers: int = Field(default=2, ge=1)
    hidden: int = Field(default=64, ge=8)
    heads: int = Field(default=4, ge=1)
    ffn: int | None = Field(default=None, ge=8, description="width of the gated MLP; default: 8/3 of hidden")
    positions: Literal["rope", "none"] = "rope"
    eigenvalues: Literal["positive", "signed"] = "signed"
    state_size: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _divisible(self) -> ModelConfig:
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden ({self.hidden}) must be a multiple of twice heads ({self.heads})")
        return self
