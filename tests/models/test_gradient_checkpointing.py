"""Gradient checkpointing changes what is kept for the backward pass, and nothing else: the same gradients in less memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS


def build(mixers: tuple[str, ...], layers: int = 2) -> DecoderForCausalLM:
    torch.manual_seed(0)
    given = {"mixers": mixers, "hidden_size": 32, "num_hidden_layers": layers}
    settings = DecoderSettings.model_validate(given)
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, 40, pad_token_id=0, eos_token_id=39)).train()


def kept_bytes(model: DecoderForCausalLM, tokens: torch.Tensor) -> tuple[int, torch.Tensor]:
    """Bytes of the different tensors that the forward pass leaves for the backward one, and the loss."""
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(tokens, labels=tokens).loss
    return sum(kept.values()), loss


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("mixers", [tuple(MIXERS)[::2], tuple(MIXERS)[1::2]], ids=["one half", "the other"])
def test_the_gradients_are_those_without_it_and_less_is_kept(mixers: tuple[str, ...], reentrant: bool) -> None:
    tokens = torch.randint(0, 40, (3, 24), generator=torch.Generator().manual_seed(1))
    found: list[tuple[int, torch.Tensor, dict[str, Any]]] = []
    for checkpointing in (False, True):
        model = build(mixers, len(mixers))
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        kept, loss = kept_bytes(model, tokens)
        loss.backward()  # type: ignore[no-untyped-call]
        found.append((kept, loss.detach(), {name: p.grad for name, p in model.named_parameters()}))
    (whole, loss, gradients), (less, again, gradients_again) = found
    torch.testing.assert_close(again, loss, atol=1e-6, rtol=0)
    assert gradients.keys() == gradients_again.keys()
    for name, gradient in gradients.items():
        assert gradient is not None
        torch.testing.assert_close(gradients_again[name], gradient, atol=1e-6, rtol=1e-6)
    assert less < whole / 2
