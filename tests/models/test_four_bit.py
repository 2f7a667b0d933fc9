"""Adapters that were trained on weights in 4 bits are evaluated on them. bitsandbytes computes NF4 on a CPU as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from remedy.eval.checkpoint import weights_digest
from remedy.eval.records.folder import read_request
from remedy.models import tokenizer as tokenizers
from remedy.models.config import PretrainedSettings
from remedy.models.loading import load_checkpoint, merge
from remedy.models.model_manifest import seal_model
from remedy.models.pretrained import build_pretrained, is_in_4bit, unmerged
from remedy.models.tokenizer_backends import HuggingFaceSettings
from tests.launch.in_process import remedy
from tests.models.test_tokenizer import write_llama
from tests.tiny_cwm import write_tiny_cwm

DATA = {"task": {"kind": "composition", "depth": 1}, "format": "cwm"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA run whose settings say that its base was in 4 bits (training it so takes a GPU), with adapters that do something."""
    base = write_tiny_cwm(tmp_path_factory.mktemp("models") / "tiny-cwm", hidden=64)  # blocks of NF4
    tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=str(base)))
    settings = {"kind": "pretrained", "name_or_path": str(base), "lora": {"r": 2}}
    model: Any = build_pretrained(PretrainedSettings.model_validate(settings), tokenizer, torch.float32, sharded=False)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    folder = base.parent / "run"
    model.save_pretrained(folder)
    tokenizer.save(folder)
    stored = {"name": "x", "data": DATA, "model": {**settings, "load_in_4bit": True}}
    (folder / "config.yaml").write_text(yaml.safe_dump(stored))
    seal_model(folder)
    return folder


def evaluated(run: Path, out: Path, *changes: str) -> Any:
    config = {
        "diagnostics": [
            {"kind": "composition", "families": ["strings"], "depths": [2], "forms": ["nested"], "examples": 2}
        ],
        "max_new_tokens": 20,
    }
    (run.parent / "evaluate.yaml").write_text(json.dumps(config))
    return remedy(["evaluate", run, run.parent / "evaluate.yaml", "--out", out, "--name", "x", *changes], 120)


def test_they_are_read_and_recorded_as_they_were_trained(run: Path, tmp_path: Path) -> None:
    bits = pytest.importorskip("bitsandbytes", reason="weights in 4 bits need bitsandbytes")
    tokens = torch.arange(5, 30)[None]
    model: Any = load_checkpoint(str(run), "cpu")[0]
    usual: Any = load_checkpoint(str(run), "cpu", load_in_4bit=False)[0]
    base: Any = load_checkpoint(str(run.parent / "tiny-cwm"), "cpu", load_in_4bit=True)[0]
    assert [is_in_4bit(one) for one in (model, usual, base)] == [True, False, True]
    # The same by hand: weights rounded to NF4, and what the adapters add as it is.
    plain: Any = load_checkpoint(str(run.parent / "tiny-cwm"), "cpu")[0]
    rounded = {name: weight.clone() for name, weight in plain.state_dict().items()}
    for name, module in base.named_modules():
        if isinstance(module, bits.nn.Linear4bit):
            rounded[f"{name}.weight"] = bits.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
    with torch.no_grad():
        for name, weight in usual.state_dict().items():
            rounded[name] = rounded[name] + (weight - plain.state_dict()[name])
        found, unrounded = model(tokens).logits, usual(tokens).logits
        usual.load_state_dict(rounded)
        by_hand = usual(tokens).logits
    # Kernels of CPUs compute in bfloat16.
    assert (found - by_hand).abs().max() < 0.1 * (found - unrounded).abs().max()
    ended = evaluated(run, tmp_path / "nf4")
    assert ended.status == 0, ended.errors
    request = read_request(tmp_path / "nf4")
    assert request["quantization"] == "nf4"
    assert request["checkpoint"]["weights"].endswith("-nf4")
    mixed = evaluated(run, tmp_path / "nf4", "load_in_4bit=false")
    assert mixed.status == 2
    assert "holds another evaluation (it differs in" in mixed.errors
    assert "quantization" in mixed.errors
    assert evaluated(run, tmp_path / "plain", "load_in_4bit=false").status == 0
    assert "quantization" not in read_request(tmp_path / "plain")
    parameters = [read_request(tmp_path / name)["checkpoint"]["parameters"] for name in ("nf4", "plain")]
    adapters = sum(weight.numel() for name, weight in model.named_parameters() if "lora_" in name)
    assert parameters[0] == parameters[1] + adapters


@pytest.mark.parametrize(("embeddings", "tied"), [("new", True), ("all", False)])
def test_rows_that_were_trained_beside_adapters_become_the_models_and_the_adapters_stay(
    embeddings: str, tied: bool, tmp_path: Path
) -> None:
    base, run = tmp_path / "base", tmp_path / "run"
    write_llama(tied, base, 64)
    tokenizer = tokenizers.build_tokenizer(HuggingFaceSettings(name_or_path=str(base)))
    settings = {"kind": "pretrained", "name_or_path": str(base), "lora": {"r": 2, "embeddings": embeddings}}
    trained: Any = build_pretrained(PretrainedSettings.model_validate(settings), tokenizer, torch.float32, False)
    with torch.no_grad():
        for weight in trained.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight) * 0.1)
    trained.save_pretrained(run)
    tokenizer.save(run)
    (run / "config.yaml").write_text(yaml.safe_dump({"name": "x", "data": DATA, "model": settings}))
    seal_model(run)
    tokens = torch.tensor([[*tokenizer.new_ids, 5, 6, 7]])
    with torch.no_grad():
        expected = trained.eval()(input_ids=tokens).logits
        found: Any = unmerged(trained)
        assert torch.equal(found(input_ids=tokens).logits, expected)
    assert found.get_input_embeddings().num_embeddings == tokenizer.vocab_size
    if embeddings == "new":
        assert (found.get_output_embeddings().weight is found.get_input_embeddings().weight) == tied
    assert any("lora_A" in name for name, _ in found.named_parameters())
    one, other = (load_checkpoint(str(run), "cpu")[0] for _ in range(2))  # rows that were drawn, and not trained, too
    assert weights_digest(one) == weights_digest(other)
    with torch.no_grad():
        assert torch.allclose(one(input_ids=tokens).logits, expected, atol=1e-5 * expected.abs().max().item())


def test_a_merge_says_what_it_is_merged_into(run: Path, tmp_path: Path) -> None:
    (said,) = merge(str(run), tmp_path / "merged")
    assert said == (
        f"the adapters were trained on {run.parent / 'tiny-cwm'} in 4 bits, and are merged into its weights as they are: it computes "
        f"something else than {run} does, so evaluate it too"
    )
    assert not is_in_4bit(load_checkpoint(str(tmp_path / "merged"), "cpu")[0])
