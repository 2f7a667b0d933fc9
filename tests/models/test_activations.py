"""Activations on shapes alone against what autograd keeps in a real step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.train.memory import activations

ROWS, TOKENS, VOCABULARY = 4, 150, 96
FACTOR = 1.15
"""How far a plan may be from what is really kept."""


def build(name: str) -> Any:
    if name == "llama":
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
        return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, **shape))
    settings = DecoderSettings(mixers=(name,), num_hidden_layers=3)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, VOCABULARY, "none", **tokens))


def without_weights(name: str) -> Any:
    with torch.device("meta"):
        return build(name)


def really_kept(model: Any) -> int:
    """Bytes of the storages, weights not among them, that a step with a loss keeps for its backward pass."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    alive: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            alive.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    ids = torch.randint(VOCABULARY, (ROWS, TOKENS), generator=torch.Generator().manual_seed(0))
    padded = torch.ones_like(ids)
    padded[0, TOKENS // 2 :] = 0  # as the Trainer's batches are
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(input_ids=ids, attention_mask=padded, labels=ids, use_cache=False).loss
    loss.backward()
    return sum(tensor.untyped_storage().nbytes() for tensor in alive.values())


@pytest.mark.parametrize("name", ["attention", "mamba2", "deltanet", "rwkv7", "path_attention", "llama"])
def test_activations_are_those_that_autograd_keeps(name: str) -> None:
    planned = activations(without_weights(name), ROWS, TOKENS)
    # Of the loss autograd keeps the log-softmax; logits and gradient are not saved tensors.
    loss = ROWS * TOKENS * VOCABULARY * 4
    model = build(name).train()
    assert 1 / FACTOR < (planned.whole + loss) / really_kept(model) < FACTOR
    model.gradient_checkpointing_enable({"use_reentrant": False})
    # What is computed again for the backward pass is one layer's, and not kept at the forward pass's end.
    forward = planned.checkpointed - max(planned.layers)
    assert 1 / FACTOR < (forward + loss) / really_kept(model) < FACTOR
    assert planned.checkpointed < planned.whole


def test_activations_grow_with_rows_and_shrink_in_half_precision() -> None:
    model = without_weights("attention")
    one, two = (activations(model, rows, TOKENS).whole for rows in (1, 2))
    half = [activations(model, 2, TOKENS, torch.bfloat16, autocast).whole for autocast in (True, False)]
    assert 1.9 * one < two <= 2 * one
    assert max(half) < 0.9 * two
