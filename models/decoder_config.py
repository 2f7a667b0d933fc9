"""The decoder's configuration, as Transformers stores it with a checkpoint."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig


class DecoderConfig(PretrainedConfig):
    """Configuration in a checkpoint: `DecoderSettings` with all defaults filled in, and the tokenizer's ids."""

    model_type = "cwm_remedy"

    mixers: list[str] | tuple[str, ...] = ("attention",)
    num_hidden_layers: int = 2
    hidden_size: int = 64
    num_attention_heads: int = 4
    intermediate_size: int = 176
    positions: str | list[str | None] | tuple[str | None, ...] = "rope"
    eigenvalues: str | None = None
    state_size: int | None = 16
    num_householder: int = 2
    window: int | list[int | None] | tuple[int | None, ...] | None = None
    qk_norm: bool = False
    short_convolution: bool | None = None
    position_range: int = 2048
    position_capacity: int = 512
    vocab_size: int = 32
    tokenizer_fingerprint: str = ""
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    initializer_range: float | None = None
    tie_word_embeddings: bool = False

    @classmethod
    def from_settings(cls, settings: Any, vocab_size: int, fingerprint: str = "", **token_ids: Any) -> DecoderConfig:
        """Make the configuration from `DecoderSettings` and a tokenizer."""
        return cls(**settings.resolved(), vocab_size=vocab_size, tokenizer_fingerprint=fingerprint, **token_ids)

    @property
    def layer_mixers(self) -> list[str]:
        return [self.mixers[layer % len(self.mixers)] for layer in range(self.num_hidden_layers)]
