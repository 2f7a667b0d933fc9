"""Settings of models: every field changes something or is refused."""

from __future__ import annotations

from typing import Any

import peft
import pytest
import torch
from torch import Tensor

from remedy.models.config import DecoderSettings, LoraSettings, PretrainedSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.pretrained import build_pretrained
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import HuggingFaceSettings
from remedy.settings import ConfigError, build
from remedy.train.config import RunConfig
from tests.tiny_cwm import write_tiny_cwm

BASES: list[dict[str, Any]] = [
    *({"mixers": [name]} for name in ("attention", "mamba", "gated_deltanet", "deltaproduct", "rwkv7")),
    {"mixers": ["deltanet", "attention"]},
    {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 16},
    {"mixers": ["attention"], "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
    {"mixers": ["attention"], "positions": "randomised"},
]
CHANGES: dict[str, list[Any]] = {
    "size": ["small"],
    "mixers": [["lstm", "attention"]],
    "num_hidden_layers": [3],
    "hidden_size": [32],
    "num_attention_heads": [1],
    "intermediate_size": [40],
    "positions": ["none", "randomised", ["rope", "none"]],
    "position_range": [4096],
    "position_capacity": [256],
    "rope_theta": [100.0],
    "window": [5],
    "qk_norm": [True],
    "short_convolution": [True, False],
    "eigenvalues": ["signed", "positive", "closed"],
    "state_size": [8],
    "num_householder": [3],
    "initializer_range": [0.5],
    "match": [{"of": "parameters", "to": ["lstm"]}, {"of": "parameters", "to": ["attention"]}],
}


@torch.no_grad()
def behaviour(settings: dict[str, Any]) -> tuple[list[Any], Tensor]:
    """The shapes of a model's parameters, and what a fixed seed makes it say."""
    torch.manual_seed(0)
    model = DecoderForCausalLM(DecoderConfig.from_settings(DecoderSettings.model_validate(settings), 20)).eval()
    return [p.shape for p in model.parameters()], model(torch.arange(12)[None]).logits


def differ(one: tuple[list[Any], Tensor], other: tuple[list[Any], Tensor]) -> bool:
    return one[0] != other[0] or not torch.equal(one[1], other[1])


def refusal(settings: dict[str, Any]) -> str:
    try:
        DecoderSettings.model_validate(settings)
    except ValueError as error:
        return str(error)
    return ""


def test_every_field_of_a_decoder_changes_it_or_is_refused() -> None:
    assert set(CHANGES) == set(DecoderSettings.model_fields) - {"kind"}
    effective: set[str] = set()
    for base in BASES:
        before = behaviour(base)
        for key, values in CHANGES.items():
            outcomes = []
            for value in values:
                refused = refusal({**base, key: value})
                outcomes.append(
                    "does nothing" in refused if refused else differ(before, behaviour({**base, key: value}))
                )
                effective |= set() if refused else {key}
            assert any(outcomes), (base, key)
    assert effective == set(CHANGES)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"mixers": ["mamba"], "num_householder": 3}, "it is for deltaproduct: remove it"),
        ({"window": [8, 8, 4]}, "window has 3 entries, and there are only 2 layers"),
        ({"mixers": ["deltanet", "attention"], "window": [8, None]}, "window.0 (8) does nothing"),
        ({"mixers": ["gru", "attention"], "positions": [None, None]}, "positions.1 is null and falls on attention"),
        ({"mixers": ["deltanet", "mamba"], "eigenvalues": "closed"}, "closed: mamba has positive or signed alone"),
        ({"hidden_size": 36, "num_attention_heads": 4}, "must be a multiple of twice num_attention_heads"),
        ({"mixers": ["atention"]}, "model.mixers.0: unknown mixer 'atention'; did you mean 'attention'?"),
    ],
)
def test_what_would_do_nothing_is_named(section: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as failed:
        build(RunConfig, {"data": {"task": {"kind": "composition"}}, "model": section}, "x")
    assert says in str(failed.value)


@pytest.fixture(scope="module")
def cwm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_cwm(tmp_path_factory.mktemp("model") / "tiny-cwm"))


def test_every_field_of_lora_reaches_the_adapters(cwm: str) -> None:
    changes: dict[str, Any] = {
        "r": 3,
        "lora_alpha": 5.0,
        "lora_dropout": 0.25,
        "target_modules": ["q_proj"],
        "embeddings": "all",
    }
    assert set(changes) == set(LoraSettings.model_fields)
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=cwm))

    def adapters(lora: dict[str, Any]) -> tuple[Any, ...]:
        config = PretrainedSettings.model_validate({"name_or_path": cwm, "lora": lora})
        model: peft.PeftModel = build_pretrained(config, tokenizer, torch.float32, sharded=False)
        used: Any = model.peft_config["default"]
        trained = {name: tuple(p.shape) for name, p in model.named_parameters() if p.requires_grad}
        return trained, used.lora_alpha, used.lora_dropout

    usual = adapters({})
    for key, value in changes.items():
        assert adapters({key: value}) != usual, key
