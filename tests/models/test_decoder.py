"""The decoder as a Transformers model: saved, loaded, bound to its tokenizer; with gradient checkpointing the same in less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from remedy.data_gen.roles import Special
from remedy.models import tokenizer as tokenizers
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.loading import load_checkpoint
from remedy.models.mixers import MIXERS
from remedy.models.tokenizer_backends import CharacterSettings, Symbols, SymbolSettings
from remedy.settings import UserError
from tests.models.small_decoders import decoder


@torch.no_grad()
def test_saved_and_loaded_by_the_auto_class_it_is_the_same_model(tmp_path: Path) -> None:
    model = decoder(tuple(MIXERS))
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    again = AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=False).eval()
    assert type(again) is DecoderForCausalLM
    tokens = torch.randint(0, 40, (2, 30))
    torch.testing.assert_close(again(tokens).logits, model(tokens).logits, atol=1e-6, rtol=0)


def test_a_checkpoint_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    mine = tokenizers.build_tokenizer(CharacterSettings())
    other = tokenizers.TraceTokenizer(SymbolSettings(), Symbols([*Special, "a"]))
    config = DecoderConfig.from_settings(DecoderSettings(hidden_size=32), mine.vocab_size, mine.fingerprint)
    DecoderForCausalLM(config).save_pretrained(tmp_path)
    mine.save(tmp_path)
    load_checkpoint(str(tmp_path))
    other.save(tmp_path)
    with pytest.raises(UserError, match="trained with tokenizer"):
        load_checkpoint(str(tmp_path))
    (tmp_path / tokenizers.FILE).unlink()
    with pytest.raises(UserError, match="is missing"):
        load_checkpoint(str(tmp_path))


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
        model = decoder(mixers).train()
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
