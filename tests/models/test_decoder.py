"""The decoder as a Transformers model: saved, loaded, generating, and bound to its tokenizer."""

from pathlib import Path

import pytest
import torch
from torch import nn
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


def build(mixers: tuple[str, ...]) -> DecoderForCausalLM:
    torch.manual_seed(0)
    config = DecoderSettings.model_validate({"mixers": mixers, "hidden_size": 32, "num_hidden_layers": len(mixers)})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 40, pad_token_id=0, eos_token_id=39)).eval()


@torch.no_grad()
def test_saved_and_loaded_by_the_auto_class_it_is_the_same_model(tmp_path: Path) -> None:
    model = build(tuple(MIXERS))
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    again = AutoModelForCausalLM.from_pretrained(tmp_path, trust_remote_code=False).eval()
    assert type(again) is DecoderForCausalLM
    tokens = torch.randint(0, 40, (2, 30))
    torch.testing.assert_close(again(tokens).logits, model(tokens).logits, atol=1e-6, rtol=0)


def test_loss_is_the_mean_over_supervised_tokens() -> None:
    model = build(("gru",))
    tokens = torch.randint(0, 40, (2, 10))
    labels = tokens.clone()
    labels[:, :4] = -100
    output = model(tokens, labels=labels)
    logits, targets = output.logits[:, 3:-1].flatten(0, 1), tokens[:, 4:].flatten()
    torch.testing.assert_close(output.loss, torch.nn.functional.cross_entropy(logits, targets))
    doubled = model(tokens, labels=labels, num_items_in_batch=24)
    torch.testing.assert_close(doubled.loss, output.loss / 2)


@pytest.mark.parametrize("name", MIXERS)
def test_initial_weights_have_the_deviation_that_is_set(name: str) -> None:
    settings = DecoderSettings.model_validate({"mixers": [name], "hidden_size": 64, "initializer_range": 0.3})
    torch.manual_seed(0)
    model = DecoderForCausalLM(DecoderConfig.from_settings(settings, 64))
    own = {id(module) for mixer in model.mixers() for module in mixer.initialised()}
    parts = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Embedding)) and id(m) not in own]
    assert len(parts) > 8
    for part in parts:
        assert float(part.weight.detach().mean().abs()) < 5 * 0.3 / part.weight.numel() ** 0.5
        assert float(part.weight.detach().std()) == pytest.approx(0.3, abs=5 * 0.3 / (2 * part.weight.numel()) ** 0.5)
        assert getattr(part, "bias", None) is None or not part.bias.any()


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
