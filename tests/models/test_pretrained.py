"""Pretrained models: adapters, new embeddings, merging, presets, and the settings of both kinds of model."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models import tokenizer as tokenizers
from remedy.models.config import DecoderSettings, PretrainedSettings
from remedy.models.decoder import DecoderForCausalLM, parameter_count
from remedy.models.decoder_config import DecoderConfig
from remedy.models.loading import load_checkpoint, merge
from remedy.models.pretrained import build_pretrained
from remedy.models.tokenizer_backends import CharacterSettings, HuggingFaceSettings, Symbols, SymbolSettings
from remedy.settings import UserError
from tests.models.test_padding import assert_a_pipeline_writes_what_the_model_writes
from tests.models.test_tokenizer import write_llama
from tests.tiny_cwm import write_tiny_cwm

FP32 = torch.float32


@pytest.fixture(scope="module")
def cwm(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_cwm(tmp_path_factory.mktemp("model") / "tiny-cwm"))


def hf(name: str) -> tokenizers.TraceTokenizer:
    return tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=name))


def assert_ends_where_traces_end(folder: Path, tokenizer: tokenizers.TraceTokenizer) -> None:
    """What servers and `generate` read of a folder says one thing, and with defaults a model that ends a trace at once stops there."""
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    configuration, generation = (
        json.loads((folder / name).read_text()) for name in ("config.json", "generation_config.json")
    )
    read = AutoTokenizer.from_pretrained(folder)
    for name, token in zip(names, (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id)):
        assert [configuration[name], generation[name], getattr(read, name), getattr(model.config, name)] == [token] * 4

    def ending(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.full_like(scores, -1e9).index_fill(1, torch.tensor([tokenizer.eos_id]), 0.0)

    prompt = torch.tensor([[5, 6, 7]])
    assert model.generate(prompt, logits_processor=LogitsProcessorList([ending])).shape[1] == 4


def test_rows_of_tokens_the_vocabulary_did_not_have_are_trained_and_saved(tmp_path: Path) -> None:
    """A pretrained model that never saw a trace: its new embeddings must come back with its adapters."""
    base = tmp_path / "base"
    words = write_llama(False, base, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    tokenizer = hf(str(base))
    assert min(tokenizer.new_ids) >= words
    config = PretrainedSettings(name_or_path=str(base), lora={"r": 2})  # type: ignore[arg-type]
    model = build_pretrained(config, tokenizer, FP32, sharded=False)
    tokens = torch.tensor([[*tokenizer.new_ids, 5, 6, 7]])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    out = tmp_path / "run"
    model.save_pretrained(out)
    tokenizer.save(out)
    with torch.no_grad():
        expected = model.eval()(input_ids=tokens).logits
        loaded, _ = load_checkpoint(str(out), "cpu")
        torch.testing.assert_close(loaded(tokens).logits, expected, atol=1e-4, rtol=0)
        (said,) = merge(str(out), tmp_path / "merged")
        assert said.startswith("rows of tokens were trained beside the adapters: vLLM serves no such adapters")
        merged, again = load_checkpoint(str(tmp_path / "merged"), "cpu")
        torch.testing.assert_close(merged(tokens).logits, expected, atol=1e-4, rtol=0)
        assert_ends_where_traces_end(tmp_path / "merged", again)
        data = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 6]}, "format": "cwm"}
        assert_a_pipeline_writes_what_the_model_writes(tmp_path / "merged", DataConfig.model_validate(data))
        whole = build_pretrained(PretrainedSettings(name_or_path=str(base)), tokenizer, FP32, sharded=False)
        whole.save_pretrained(tmp_path / "whole")  # as training without adapters saves it
        tokenizer.save(tmp_path / "whole")
        assert_ends_where_traces_end(tmp_path / "whole", tokenizer)
    assert again.encode([]).ids == []
    assert again.special_ids == tokenizer.special_ids
    with pytest.raises(UserError, match="under ZeRO-3 single rows cannot be trained; set it to `all`"):
        build_pretrained(config, tokenizer, FP32, sharded=True)


OWN: list[dict[str, Any]] = [
    {"temperature": 0.9, "top_p": 0.6},
    {"do_sample": False, "temperature": 1e-6},
    {"max_new_tokens": 64, "do_sample": True},
]


@pytest.mark.parametrize("own", OWN, ids=str)
@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_generation_settings_of_a_base_are_left_out(
    file: str, own: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Transformers loads those that do nothing, and refuses to save them; a limit of tokens would cut traces."""
    base = write_tiny_cwm(tmp_path / "base", layers=1)
    kept = json.loads((base / file).read_text())
    (base / "generation_config.json").unlink()
    (base / file).write_text(json.dumps({**kept, **own}))
    tokenizer = hf(str(base))
    with caplog.at_level("INFO"):
        for lora, folder in ((None, "whole"), ({"r": 2}, "adapted")):
            config = PretrainedSettings.model_validate({"name_or_path": str(base), "lora": lora})
            build_pretrained(config, tokenizer, FP32, sharded=False).save_pretrained(tmp_path / folder)
    names = ", ".join(sorted(own))
    assert caplog.text.count(f"its generation settings are left out, for traces are greedy: {names}\n") == 2
    tokenizer.save(tmp_path / "adapted")
    merge(str(tmp_path / "adapted"), tmp_path / "merged")
    for folder in ("whole", "merged"):
        saved = json.loads((tmp_path / folder / "generation_config.json").read_text())
        assert set(saved) == {"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"}


def test_a_model_that_cannot_be_loaded_is_said_in_one_line(
    cwm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tokenizer = hf(cwm)
    wrong = {"target_modules": ["q_prjo"]}
    for settings, says in (
        ({"name_or_path": "facebook/cwm-no-such"}, "cannot be loaded: give the folder of a local copy"),
        ({"name_or_path": "pretrained/smollm2"}, "cannot be loaded: run `make pretrained` again ("),
        ({"name_or_path": cwm, "lora": wrong}, "no linear layer is called 'q_prjo'; did you mean 'q_proj'?"),
    ):
        with pytest.raises(UserError) as failed:
            build_pretrained(PretrainedSettings.model_validate(settings), tokenizer, FP32, sharded=False)
        assert says in str(failed.value)
        assert "\n" not in str(failed.value)
    in_4bit = PretrainedSettings.model_validate({"name_or_path": cwm, "lora": {}, "load_in_4bit": True})
    with pytest.raises(UserError, match="ZeRO-3 cannot divide weights in 4 bits"):
        build_pretrained(in_4bit, tokenizer, FP32, sharded=True)
    with pytest.raises(UserError, match=r"no adapter_config\.json there"):
        merge(cwm, tmp_path / "out")
    adapted = tmp_path / "adapted"
    model = build_pretrained(
        PretrainedSettings.model_validate({"name_or_path": cwm, "lora": {}}), tokenizer, FP32, sharded=False
    )
    model.save_pretrained(adapted)
    with pytest.raises(UserError, match="holds adapters alone; `remedy merge` makes a model"):
        build_pretrained(PretrainedSettings(name_or_path=str(adapted)), tokenizer, FP32, sharded=False)
    tokenizer.save(adapted)
    settings_file = adapted / "adapter_config.json"
    kept = settings_file.read_text()
    for other, says in (
        ({"target_modules": "((.)+)+!"}, "these are no adapters of `model.lora`, or choose layers by a pattern"),
        ({"rank_pattern": {"((.)+)+!": 2}}, "these are no adapters of `model.lora`, or choose layers by a pattern"),
        ({"peft_type": "POLY"}, "these are no adapters of `model.lora`, or choose layers by a pattern"),
        ({"r": 10**6}, "describes a model of more weights than its files hold"),
        ({"alora_invocation_tokens": [1]}, "aLoRA does not support merging"),
    ):
        settings_file.write_text(json.dumps({**json.loads(kept), **other}))
        with pytest.raises(UserError, match=says):
            load_checkpoint(str(adapted))
    settings_file.write_text(kept)
    (adapted / "adapter_model.safetensors").write_bytes(b"\0" * 10_000)
    with pytest.raises(UserError, match="adapters cannot be read"):
        load_checkpoint(str(adapted))
    (adapted / "adapter_model.safetensors").rename(adapted / "adapter_model.bin")
    with pytest.raises(UserError, match=r"adapters cannot be read \(adapter_model\.bin is a pickle"):
        load_checkpoint(str(adapted))
    (adapted / "other.safetensors").touch()
    with pytest.raises(UserError, match=r"adapters cannot be read \(adapter_model\.safetensors is missing"):
        load_checkpoint(str(adapted))


def test_a_decoder_of_ours_is_fine_tuned_only_with_its_own_tokenizer(tmp_path: Path) -> None:
    mine = tokenizers.build_tokenizer(CharacterSettings())
    other = tokenizers.TraceTokenizer(SymbolSettings(), Symbols([*Special, "a"]))
    settings = DecoderConfig.from_settings(DecoderSettings(hidden_size=32), mine.vocab_size, mine.fingerprint)
    DecoderForCausalLM(settings).save_pretrained(tmp_path)
    config = PretrainedSettings(name_or_path=str(tmp_path))
    assert parameter_count(build_pretrained(config, mine, FP32, sharded=False)) > 0
    with pytest.raises(UserError, match="another tokenizer than this run's"):
        build_pretrained(config, other, FP32, sharded=False)
