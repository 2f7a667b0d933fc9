"""Settings of the decoder: as the user writes them, and as Transformers stores them with a checkpoint."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from transformers import PretrainedConfig

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


class RemedyConfig(PretrainedConfig):
    """The decoder's configuration inside a checkpoint; fields as in `ModelConfig`, one mixer name per layer."""

    model_type = "cwm_remedy"

    def __init__(
        self,
        vocab_size: int = 32,
        layer_mixers: list[str] | None = None,
        hidden_size: int = 64,
        num_attention_heads: int = 4,
        intermediate_size: int = 176,
        positions: str = "rope",
        eigenvalues: str = "signed",
        state_size: int = 16,
        rope_theta: float = 10_000.0,
        rms_norm_eps: float = 1e-5,
        initializer_range: float = 0.02,
        tokenizer_fingerprint: str = "",
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.layer_mixers = layer_mixers or ["attention", "attention"]
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.positions = positions
        self.eigenvalues = eigenvalues
        self.state_size = state_size
        self.rope_theta = rope_theta
        self.rms_norm_eps = rms_norm_eps
        self.initializer_range = initializer_range
        self.tokenizer_fingerprint = tokenizer_fingerprint
        self.num_hidden_layers = len(self.layer_mixers)
        kwargs.setdefault("tie_word_embeddings", False)
        super().__init__(**kwargs)

    @classmethod
    def from_model(cls, config: ModelConfig, vocab_size: int, fingerprint: str = "", **token_ids: Any) -> RemedyConfig:
        """The checkpoint configuration of a user's `ModelConfig` for a tokenizer."""
        mixers: list[str] = [config.mixers[i % len(config.mixers)] for i in range(config.layers)]
        ffn = config.ffn or 8 * ((config.hidden * 8 // 3 + 7) // 8)
        return cls(
            vocab_size=vocab_size,
            layer_mixers=mixers,
            hidden_size=config.hidden,
            num_attention_heads=config.heads,
            intermediate_size=ffn,
            positions=config.positions,
            eigenvalues=config.eigenvalues,
            state_size=config.state_size,
            tokenizer_fingerprint=fingerprint,
            **token_ids,
        )
