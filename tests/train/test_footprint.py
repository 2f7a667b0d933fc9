"""`remedy plan`: counts equal those of models that are really built, and what cannot be known is an error of one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from rich.console import Console
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from remedy.models.config import PretrainedSettings
from remedy.models.flops import training_flops
from remedy.models.pretrained import build_pretrained
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import UserError, load
from remedy.train.config import RunConfig
from remedy.train.footprint import footprint, print_footprint
from remedy.train.memory import parameter_counts
from remedy.train.run import build_model, train
from tests.tiny_cwm import write_tiny_cwm
from tests.tiny_models import tiny_model

ROOT = Path(__file__).resolve().parent.parent.parent
PERMUTATION = ROOT / "configs" / "train" / "permutation.yaml"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_cwm(tmp_path_factory.mktemp("tiny") / "model")


def pretrained(folder: Path, *changes: str) -> RunConfig:
    names = [f"model.name_or_path={folder}", f"tokenizer.name_or_path={folder}"]
    few = ["train.batch_size=4", "train.gradient_accumulation_steps=1", "train.deepspeed=null", "train.precision=fp32"]
    return load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml", [*names, *few, *changes])


def test_our_models_are_counted_as_they_are_built() -> None:
    config = load(RunConfig, PERMUTATION, ["model.mixers=[attention,mamba2,deltanet]", "model.num_hidden_layers=3"])
    model = build_model(config, build_tokenizer(config.tokenizer, config.data))
    found = footprint(config, 1, length=40)
    assert found.counts == parameter_counts(model)
    assert found.flops == pytest.approx(2500 * 64 * training_flops(model).of([40]))


@pytest.mark.parametrize("change", ["model.lora.embeddings=all", "model.lora=null"])
def test_pretrained_models_are_counted_from_their_config_alone(tiny: Path, tmp_path: Path, change: str) -> None:
    config = pretrained(tiny, change)
    built = parameter_counts(build_model(config, build_tokenizer(config.tokenizer, config.data)))
    bare = tmp_path / "bare"
    shutil.copytree(tiny, bare, ignore=shutil.ignore_patterns("*.safetensors"))
    assert footprint(pretrained(bare, change), 1, length=60).counts == built


def said_of(config: RunConfig, gpu_memory: float = 80.0) -> str:
    with open(os.devnull, "w") as file:
        console = Console(width=300, record=True, file=file)
        print_footprint(config, 1, gpu_memory, 989.0, 0.4, length=64, console=console)
    return console.export_text()


def test_of_architectures_whose_mixing_is_not_known_a_plan_says_so_and_counts_what_is_computed_again(
    tiny: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny, tmp_path / "mamba", ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    tiny_model("mamba", 400).config.save_pretrained(tmp_path / "mamba")
    once, twice = (
        pretrained(tmp_path / "mamba", "model.lora=null", f"train.gradient_checkpointing={again}")
        for again in ("false", "true")
    )
    assert footprint(twice, 1, 64).flops == pytest.approx(footprint(once, 1, 64).flops * 8 / 6)
    assert "what mixing tokens takes is not known of this architecture" in said_of(once)
    said = said_of(pretrained(tiny))
    assert "not known of this architecture" not in said
    assert "It fits in 80 GB" in said
    assert "40% utilisation" in said
    assert "It does not fit in 0.0001 GB" in said_of(pretrained(tiny), 0.0001)


def test_examples_longer_than_a_table_of_positions_are_refused_by_plans_and_by_runs(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "gpt2", ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    words = build_tokenizer(pretrained(tiny).tokenizer).vocab_size
    tiny_model("gpt2", words, n_positions=64).save_pretrained(tmp_path / "gpt2")
    config = pretrained(tmp_path / "gpt2", "model.lora=null", f"output={tmp_path / 'run'}", "tracking.wandb=false")
    assert footprint(config, 1, 64).rows == 4
    message = r"an example of [\d,]+ tokens is longer than the model's table of 64 positions \(n_positions"
    for refused in (lambda: footprint(config, 1, 65), lambda: footprint(config, 1), lambda: train(config)):
        with pytest.raises(UserError, match=message):
            refused()
    assert footprint(config.changed({"train.pack": 2}, ""), 1, 128).rows == 4


def test_weights_in_4_bits_are_refused_under_zero_3_by_plans_and_by_runs(tiny: Path) -> None:
    config = pretrained(tiny, "model.load_in_4bit=true", "train.deepspeed={stage: 3}")
    assert isinstance(config.model, PretrainedSettings)
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    for refused in (
        lambda: footprint(config, 1, 64),
        lambda: build_pretrained(config.model, tokenizer, torch.float32, sharded=True),
    ):
        with pytest.raises(UserError, match="ZeRO-3 cannot divide weights in 4 bits"):
            refused()
    divided = pretrained(tiny, "model.load_in_4bit=true", "train.deepspeed={stage: 2}")
    assert footprint(divided, 1, 64).states.weights > 0


def test_what_does_not_run_on_shapes_alone_is_one_line_and_nothing_beside_it(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(tiny, tmp_path / "moe", ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    sizes = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_experts": 2, "num_experts_per_tok": 1}
    tiny_model("qwen3_moe", 400, **sizes).config.save_pretrained(tmp_path / "moe")
    with pytest.raises(UserError, match="does not run on shapes alone"):
        footprint(pretrained(tmp_path / "moe", "model.lora=null"), 1, 64)
    assert not caplog.records


def test_new_rows_of_a_table_that_is_the_head_too(tmp_path: Path) -> None:
    """PEFT's two layers share them; after its activations are counted the model is still whole, and its operations can be."""
    byte_level = Tokenizer(BPE({letter: i for i, letter in enumerate(["<pad>", *sorted(ByteLevel.alphabet())])}, []))
    byte_level.pre_tokenizer, byte_level.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token="<pad>").save_pretrained(tmp_path / "tied")
    tiny_model("llama", 257, tie_word_embeddings=True).save_pretrained(tmp_path / "tied")
    config = pretrained(tmp_path / "tied", "model.lora.embeddings=new")
    model = build_model(config, build_tokenizer(config.tokenizer, config.data))
    assert any("trainable_tokens" in name for name, _ in cast(Any, model).named_parameters())
    found = footprint(config, 1, length=60)
    assert found.counts == parameter_counts(model)
    examples = config.train.total_steps * config.train.batch_size
    assert found.flops == pytest.approx(examples * training_flops(model, config.train.gradient_checkpointing).of([60]))


@pytest.mark.slow
def test_the_shipped_models_are_planned_without_a_hub() -> None:
    config = load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml")
    found = footprint(config, 8)
    assert 32.5e9 < found.counts.frozen < 32.6e9
    assert found.lengths.guessed
    other = load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml", ["tokenizer.name_or_path=nowhere"])
    with pytest.raises(UserError, match="tokenizer 'nowhere' cannot be loaded"):
        footprint(other, 8)
