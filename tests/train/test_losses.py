"""A head that answers with losses gives the model's own loss and gradients, and never has the logits of all tokens."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from remedy.models.config import DecoderSettings, PretrainedSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.model_manifest import read_training
from remedy.models.pretrained import build_pretrained
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import HuggingFaceSettings
from remedy.settings import UserError, build
from remedy.train import losses
from remedy.train.config import RunConfig
from remedy.train.losses import IGNORED, Head, mean_loss
from remedy.train.run import train
from remedy.train.stacked import train_stacked
from remedy.train.tracking import read_metrics
from tests.models.test_tokenizer import write_llama
from tests.tiny_cwm import write_tiny_cwm
from tests.tiny_models import FAMILIES, tiny_model

WORDS, CPU = 97, torch.device("cpu")
TRAIN = {
    "max_steps": 2,
    "batch_size": 4,
    "micro_batch_size": 2,
    "evaluate_every": 2,
    "validation_examples": 4,
    "logging_steps": 1,
    "threads": 1,
}
ADAPTED = {
    "rows": {"r": 2},  # of the tokens that are new, in a wrapper around the head
    "tables": {"r": 2, "embeddings": "all"},
    "head": {"r": 2, "target_modules": ["lm_head", "q_proj"]},
}


def decoder(words: int = WORDS) -> DecoderForCausalLM:
    torch.manual_seed(0)
    settings = DecoderSettings.model_validate({"mixers": ("attention", "deltanet"), "hidden_size": 32})
    return DecoderForCausalLM(DecoderConfig.from_settings(settings, words, pad_token_id=0, eos_token_id=1)).train()


def adapted(lora: dict[str, Any], tied: bool, folder: Path) -> Any:
    """A pretrained model with adapters that have already moved; on its head, one that has the trace tokens."""
    if "target_modules" in lora:
        write_tiny_cwm(folder)
    else:
        write_llama(tied, folder)
    settings = PretrainedSettings.model_validate({"name_or_path": str(folder), "lora": {**lora, "lora_dropout": 0.0}})
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=str(folder)))
    model: Any = build_pretrained(settings, tokenizer, torch.float32, sharded=False)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.02 * torch.randn_like(parameter)
    return model.train()


def batch(words: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (3, 20), and labels of about half of them."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, words, (3, 20), generator=generator)
    return tokens, tokens.where(torch.rand(tokens.shape, generator=generator) < 0.5, -100)


def learnt(model: Any, tokens: torch.Tensor, labels: torch.Tensor, chunk: int) -> tuple[torch.Tensor, dict[str, Any]]:
    """The loss and the gradients by a head that holds so many tokens' logits at once; the model's own at 0."""
    model = copy.deepcopy(model)
    count = int((labels[:, 1:] != -100).sum())
    if chunk:
        head = Head(model)
        losses.CHUNK = chunk * head.classes
        with head.learning(labels):
            loss = mean_loss(model(tokens), labels, count)
    else:
        loss = model(tokens, labels=labels, num_items_in_batch=count).loss
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


def assert_same(model: Any, words: int) -> None:
    tokens, labels = batch(words)
    loss, gradients = learnt(model, tokens, labels, 0)
    for chunk in (7, 1000):
        found, mine = learnt(model, tokens, labels, chunk)
        torch.testing.assert_close(found, loss, atol=0, rtol=1e-6)
        assert mine.keys() == gradients.keys()
        for name, gradient in gradients.items():
            assert (mine[name] is None) == (gradient is None), name
            if gradient is not None:
                torch.testing.assert_close(mine[name], gradient, atol=1e-6, rtol=1e-5, msg=name)


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "CHUNK", losses.CHUNK)


def test_the_loss_and_the_gradients_are_the_decoders() -> None:
    assert_same(decoder(), WORDS)


@pytest.mark.parametrize(("lora", "tied"), [("rows", True), ("tables", False), ("head", False)])
def test_the_loss_and_the_gradients_are_those_of_adapted_models(lora: str, tied: bool, tmp_path: Path) -> None:
    model = adapted(ADAPTED[lora], tied, tmp_path)
    assert_same(model, model.config.vocab_size)


def of_family(family: str, folder: Path, data: dict[str, Any], **train: Any) -> dict[str, Any]:
    """Settings of a run that trains a small model of a family, which is written into the folder."""
    name = str(write_tiny_cwm(folder / "base"))
    tokenizer = build_tokenizer(HuggingFaceSettings(name_or_path=name))
    tiny_model(family, tokenizer.vocab_size, **sizes_of(family)).save_pretrained(folder / family)
    losses.CHUNK = 7 * tokenizer.vocab_size
    return {
        "data": {"task": {"kind": "permutation", "n": 3, "length": [1, 5]}, **data},
        "tokenizer": {"kind": "hf", "name_or_path": name},
        "model": {"kind": "pretrained", "name_or_path": str(folder / family)},
        "train": train,
        "tracking": {"report_to": []},
        "output": str(folder / "run"),
    }


def sizes_of(family: str) -> dict[str, int]:
    return {} if family in FAMILIES else {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64}


CHANGED = {
    "gemma2": {"final_logit_softcapping": 30.0},
    "cohere": {"logit_scale": 0.5},
    "granite": {"logits_scaling": 2.0},
    "qwen3_moe": {"output_router_logits": True, "num_experts": 2, "num_experts_per_tok": 1},
    "recurrent_gemma": {"logits_soft_cap": 30.0},
    "xlstm": {"output_logit_soft_cap": 30.0},
}
"""Models that change logits behind their head, if little while these are small, or add to their loss."""


@pytest.mark.parametrize("family", [*FAMILIES, *(family for family in CHANGED if family not in FAMILIES)])
def test_a_model_is_taken_whose_loss_is_the_cross_entropy_of_its_head(family: str) -> None:
    model, (tokens, labels) = tiny_model(family, WORDS, **sizes_of(family), **CHANGED.get(family, {})), batch(WORDS)
    head = Head(model)
    assert (head.refusal(model, CPU) is None) == (family not in CHANGED)
    if family not in CHANGED:
        losses.CHUNK = 7 * WORDS
        with torch.no_grad(), head.learning(labels):
            found = mean_loss(model(tokens), labels)
        torch.testing.assert_close(found, model(tokens, labels=labels).loss.detach(), atol=1e-6, rtol=1e-6)


def test_adapters_in_the_head_that_zero_3_divides_are_not_called_chunk_by_chunk(tmp_path: Path) -> None:
    """Processes may have unlike numbers of chunks, and would wait for one another for ever."""
    model = adapted(ADAPTED["head"], False, tmp_path)
    head = Head(model)
    assert head.refusal(model, CPU) is None
    for parameter in head.module.lora_A.parameters():
        parameter.ds_id = 1  # as DeepSpeed marks what it divides
    assert "ZeRO-3 divides" in str(head.refusal(model, CPU))


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_step_with_nothing_to_learn_has_a_loss_of_zero(family: str, tmp_path: Path) -> None:
    """Every second row is of a form that has no values: by chunks and by all logits."""
    train_settings = {"max_steps": 4, "batch_size": 1, "loss_roles": ["value"], "logging_steps": 1, "threads": 1}
    settings = of_family(family, tmp_path, {"format": "cwm"}, **train_settings)
    settings["mixture"] = {"values": {"weight": 1}, "none": {"weight": 1, "set": {"format": "repl"}}}
    found = [record["loss"] for record in read_metrics(train(build(RunConfig, settings, "test")) / "metrics.jsonl")]
    assert [loss == 0 for loss in found] == [False, True, False, True]


@pytest.mark.parametrize(("family", "pack"), [("llama", 2), ("gemma2", 1)])
def test_a_run_has_the_losses_and_figures_of_one_with_all_logits(
    family: str, pack: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = of_family(family, tmp_path, {"format": "repl"}, **TRAIN, pack=pack)
    runs = []
    for whole in (False, True):
        if whole:
            monkeypatch.setattr(Head, "refusal", lambda *_: "as a control")
        with caplog.at_level("INFO", logger="remedy.train.trainer"):
            folder = train(build(RunConfig, {**settings, "output": str(tmp_path / f"{whole}")}, "test"))
        said = sum("logits of all tokens are held" in record.message for record in caplog.records)
        assert said == (whole or family == "gemma2")
        assert ((read_training(folder) or {})["computed"]["all_logits"] is not None) == said
        caplog.clear()
        runs.append(
            [
                {k: v for k, v in r.items() if "loss" in k or "exact" in k}
                for r in read_metrics(folder / "metrics.jsonl")
            ]
        )
    for mine, expected in zip(*runs, strict=True):
        assert mine == pytest.approx(expected, abs=2e-6)


def test_smoothed_labels_have_the_loss_and_the_gradients_of_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (tokens, labels) = decoder(), batch(WORDS)
    monkeypatch.setattr(losses, "CHUNK", 7 * WORDS)
    head = Head(model, smoothing=0.1)
    with head.learning(labels):
        found = mean_loss(model(tokens), labels)
    found.backward()
    mine = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    logits = model(tokens).logits[:, :-1].flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, labels[:, 1:].flatten(), label_smoothing=0.1)
    expected.backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, [p.grad for p in model.parameters() if p.grad is not None], atol=1e-6, rtol=1e-4)
    with torch.no_grad(), head.scoring(labels):  # validation's are as they were
        scores = model(tokens).logits[:, :-1, 0][labels[:, 1:] != -100]
    torch.testing.assert_close(
        scores.mean(), torch.nn.functional.cross_entropy(logits, labels[:, 1:].flatten()), atol=1e-5, rtol=1e-5
    )


def test_weighted_tokens_have_the_loss_and_the_gradients_of_torchs() -> None:
    model, (tokens, labels) = decoder(), batch(WORDS)
    losses.CHUNK = 7 * WORDS
    weights = torch.where(labels == IGNORED, 0.0, 1.0 + 3.0 * (tokens % 2))
    head = Head(model)
    with head.learning(labels, weights):
        found = mean_loss(model(tokens), labels, 30)
    found.backward()
    mine = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    logits, targets = model(tokens).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    each = torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")
    expected = (each * weights[:, 1:].flatten()).sum() / 30
    expected.backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, [p.grad for p in model.parameters() if p.grad is not None], atol=1e-6, rtol=1e-4)


def test_a_weighted_run_is_the_same_in_pieces_in_packed_rows_and_stacked_and_validates_without_weights(
    tmp_path: Path,
) -> None:
    weighted = {"loss_weights": {"state": 4.0}, **TRAIN}
    data = {"task": {"kind": "permutation", "n": 3, "length": [1, 9]}, "format": "repl"}
    base = {"data": data, "model": {"mixers": ["attention"], "hidden_size": 16, "num_attention_heads": 2}}
    base |= {"tokenizer": {"kind": "chars"}, "tracking": {"report_to": []}}

    def figures(name: str, **train_settings: Any) -> list[float]:
        settings = {**base, "output": str(tmp_path / name), "train": {**TRAIN, "learning_rate": 1e-6, **train_settings}}
        config = build(RunConfig, settings, "test")
        if config.train.stacked is None:
            folder = train(config)
        else:
            train_stacked("test", config.runs())
            folder = tmp_path / name / "seed-0"
        records = read_metrics(folder / "metrics.jsonl")
        return [record[key] for key in ("loss", "eval_loss") for record in records if key in record]

    plain, found = figures("plain"), figures("pieces", **weighted)
    assert found[0] != pytest.approx(plain[0], abs=1e-4)
    assert found[-1] == pytest.approx(plain[-1], abs=1e-4)
    whole = {**weighted, "micro_batch_size": None}
    assert figures("whole", **whole) == pytest.approx(found, abs=1e-5)
    assert figures("packed", **{**whole, "batch_size": 2, "pack": 2}) == pytest.approx(found, abs=1e-5)
    assert figures("stacked", **whole, stacked=2) == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("setting", [{"loss_weights": {"state": 4.0}}, {"label_smoothing_factor": 0.1}])
def test_a_model_whose_own_loss_is_used_has_no_weights_and_no_smoothing(
    setting: dict[str, Any], tmp_path: Path
) -> None:
    settings = of_family("gemma2", tmp_path, {"format": "repl"}, **TRAIN, **setting)
    with pytest.raises(UserError, match=f"train.{next(iter(setting))}: this model's own loss is used"):
        train(build(RunConfig, settings, "test"))
