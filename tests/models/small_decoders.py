"""Small decoders of every mixer, and of their settings."""

import torch

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS

ALL = [(name,) for name in MIXERS] + [("attention", "deltanet"), ("gru", "mamba2", "attention")]
SIGNED: dict[str, object] = {"eigenvalues": "signed"}
FORMS: list[tuple[tuple[str, ...], dict[str, object]]] = [
    *((mixers, {}) for mixers in ALL),
    *((mixers, SIGNED) for mixers in (("mamba",), ("mamba2",), ("gated_deltanet",))),
    (("deltanet",), {"eigenvalues": "positive"}),
    (("deltanet",), {"short_convolution": False}),
    (("deltaproduct",), {"num_householder": 3}),
    (("mamba2",), {"state_size": 16}),
    (("path_attention",), {"eigenvalues": "positive"}),
    (("attention",), {"window": 1}),
    (("attention",), {"window": 7, "qk_norm": True}),
    (("attention",), {"window": 7, "positions": "none"}),
    (("attention",), {"short_convolution": True, "rope_theta": 100.0}),
    (("attention",), {"positions": "randomised", "window": 20}),
    (("attention",), {"positions": "randomised", "position_range": 90, "position_capacity": 30}),
    (("attention",) * 4, {"window": (5, 5, 5, None)}),
    (("attention",) * 2, {"window": (5, None), "positions": ("rope", "none")}),
    (("deltanet", "attention"), {"window": 6, "short_convolution": True}),
]


def named(value: object) -> str:
    return "+".join(value) if isinstance(value, tuple) else "+".join(f"{k} {v}" for k, v in dict(value).items())  # type: ignore[call-overload]


def decoder(mixers: tuple[str, ...], **settings: object) -> DecoderForCausalLM:
    torch.manual_seed(0)
    shape: dict[str, object] = {"num_hidden_layers": max(2, len(mixers)), "hidden_size": 32}
    if any("num_attention_heads" in MIXERS[name].reads.uses for name in mixers):
        shape["num_attention_heads"] = 2
    config = DecoderSettings.model_validate({"mixers": mixers, "intermediate_size": 88, **shape, **settings})
    model = DecoderForCausalLM(DecoderConfig.from_settings(config, 40)).eval()
    for name, parameter in model.named_parameters():
        if not parameter.any() and not name.endswith(
            "bias"
        ):  # low ranks begin at zero: nothing would depend on the input
            torch.nn.init.normal_(parameter, std=0.3)
    return model
