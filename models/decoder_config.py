"""Settings of the decoder as Transformers stores them with a checkpoint."""

from __future__ import annotations

from typing import Any

from transformers import PretrainedConfig

from remedy.models.config import ModelConfig


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
        eigenvalues: str | None = None,
        state_size: int = 16,
        householders: int = 2,
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
        self.householders = householders
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
            householders=config.householders,
            tokenizer_fingerprint=fingerprint,
            **token_ids,
        )
