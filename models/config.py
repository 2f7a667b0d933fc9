"""Settings of what is trained, as the user writes them: a decoder of ours, or a pretrained model with or without LoRA."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from remedy.data_gen.settings import Settings

MixerName = Literal["attention", "mamba", "mamba2", "deltanet", "gated_deltanet", "deltaproduct", "gru", "lstm"]

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"layers": 2, "hidden": 64, "heads": 4},
    "small": {"layers": 4, "hidden": 256, "heads": 8},
    "medium": {"layers": 12, "hidden": 384, "heads": 8},
    "280m": {"layers": 18, "hidden": 512, "heads": 8, "ffn": 4672},
}
"""Presets. Attention has 0.13, 3, 21 and 148 million parameters in its layers; `280m` is 279 million with Llama-3's vocabulary."""


class ModelConfig(Settings):
    """A decoder. `mixers` is repeated over the layers: `[attention, deltanet]` is a hybrid.

    `size`: a preset of layers, hidden, heads and ffn, of which each can still be given. `positions`: rotary or none (attention
    only). `eigenvalues`: the range of the transition's eigenvalues in Mamba, Mamba-2 and the delta-rule mixers; `positive` is
    [0, 1], `signed` is [-1, 1] (Grazzi et al., "Unlocking state-tracking in linear RNNs through negative eigenvalues", 2024); by
    default as published: positive for Mamba and Mamba-2, signed for the others.
    `state_size`: Mamba's and Mamba-2's. `householders`: steps of the delta rule that DeltaProduct takes for each token.
    """

    kind: Literal["decoder"] = "decoder"
    size: Literal["tiny", "small", "medium", "280m"] | None = None
    mixers: tuple[MixerName, ...] = Field(default=("attention",), min_length=1)
    layers: int = Field(default=2, ge=1)
    hidden: int = Field(default=64, ge=8)
    heads: int = Field(default=4, ge=1)
    ffn: int | None = Field(default=None, ge=8, description="width of the gated MLP; default: 8/3 of hidden")
    positions: Literal["rope", "none"] = "rope"
    eigenvalues: Literal["positive", "signed"] | None = None
    state_size: int = Field(default=16, ge=1)
    householders: int = Field(default=2, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, value: Any) -> Any:
        """A preset fills in what is not given; a name that is none is left to the field's own message."""
        preset = SIZES.get(str(value.get("size")), {}) if isinstance(value, dict) else {}
        return {**preset, **value} if preset else value

    @model_validator(mode="after")
    def _divisible(self) -> ModelConfig:
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden ({self.hidden}) must be a multiple of twice heads ({self.heads})")
        return self


EIGENVALUES = {
    "mamba": "positive",
    "mamba2": "positive",
    "deltanet": "signed",
    "gated_deltanet": "signed",
    "deltaproduct": "signed",
}
"""The range that each mixer with a switch has where `eigenvalues` is not given."""


def eigenvalues_of(mixer: str, chosen: str | None) -> str | None:
    """`positive` or `signed`, by a configuration's choice or the mixer's default; None for mixers without the switch."""
    return (chosen or EIGENVALUES[mixer]) if mixer in EIGENVALUES else None


class LoraConfig(Settings):
    """Low-rank adapters (Hu et al., "LoRA", 2021) on `targets`: `all-linear` or the last parts of modules' names.

    `embeddings`: `new` trains the rows of trace tokens that the model's vocabulary did not have (none for a code world model),
    `all` whole embedding tables, which is what ZeRO-3 can do.
    """

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    embeddings: Literal["new", "all"] = "new"


class PretrainedConfig(Settings):
    """A Hugging Face causal language model (`facebook/cwm`), by name or folder; a finished run's folder is one too.

    Without `lora` all weights are trained. `four_bit`: the frozen weights are held in 4-bit NF4 (Dettmers et al., "QLoRA",
    2023), which needs CUDA and bitsandbytes.
    """

    kind: Literal["pretrained"] = "pretrained"
    name: str
    lora: LoraConfig | None = None
    four_bit: bool = False

    @model_validator(mode="after")
    def _adapters_on_four_bit(self) -> PretrainedConfig:
        if self.four_bit and self.lora is None:
            raise ValueError("four_bit weights are frozen: add a `lora` section to train adapters on them")
        return self


def _kind_given(value: Any) -> Any:
    """Without a `kind` it is a decoder: most configurations describe one."""
    return {"kind": "decoder", **value} if isinstance(value, dict) else value


AnyModel = Annotated[
    Annotated[ModelConfig | PretrainedConfig, Field(discriminator="kind")], BeforeValidator(_kind_given)
]
