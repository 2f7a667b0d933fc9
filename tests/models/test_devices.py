"""Models on several devices, as far as it goes without GPUs: layers that lie on a disk and are fetched to where they are computed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accelerate import dispatch_model

from remedy.eval.checkpoint import describe, weights_digest
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.models.loading import input_device, load_checkpoint, spread
from remedy.models.reader import ModelReader
from remedy.settings import ConfigError, UserError, build
from tests.eval.test_evaluate import PERMUTATION, SETTINGS, model_for
from tests.evaluations import assert_the_same
from tests.tiny_models import tiny_model

CPU = torch.device("cpu")
FEWER = SETTINGS.changed({"diagnostics.0.lengths": [3], "diagnostics.0.examples": 3, "max_new_tokens": 60})


@pytest.mark.parametrize("spread_here", [True, False], ids=["layers", "embeddings"])
def test_a_model_whose_weights_lie_elsewhere_is_the_same_and_writes_the_same(spread_here: bool, tmp_path: Path) -> None:
    _, tokenizer = model_for(PERMUTATION, "symbols")
    whole, parted = (tiny_model("llama", tokenizer.vocab_size) for _ in range(2))
    if spread_here:
        spread(parted, {"cpu": 60_000}, str(tmp_path / "weights"))
    else:
        names = ["model.layers", "model.norm", "model.rotary_emb", "lm_head"]
        places = {"model.embed_tokens": "disk", **dict.fromkeys(names, "cpu")}
        dispatch_model(parted, places, offload_dir=str(tmp_path / "weights"))
    elsewhere = [name for name, weight in parted.named_parameters() if weight.is_meta]
    assert 0 < len(elsewhere) < len(list(parted.parameters()))
    assert parted.get_input_embeddings().weight.is_meta != spread_here
    assert input_device(parted) == CPU
    assert weights_digest(parted) == weights_digest(whole)
    assert describe(parted, tokenizer) == describe(whole, tokenizer)
    assert ModelReader(parted).footprint == ModelReader(whole).footprint
    for model, folder in ((whole, tmp_path / "one"), (parted, tmp_path / "other")):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), FEWER, folder, "x")
    assert_the_same(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "evaluation.json").read_bytes() == (tmp_path / "other" / "evaluation.json").read_bytes()


def test_what_a_device_map_would_not_do_is_refused(tmp_path: Path) -> None:
    settings = build(EvalConfig, {**SETTINGS.model_dump(), "device_map": "auto"}, "x")
    settings.refuse_on(1)
    with pytest.raises(ConfigError, match="device_map auto spreads one model over all GPUs, of which each of 8"):
        settings.refuse_on(8)
    with pytest.raises(ConfigError, match="device_map auto does nothing with a backend"):
        settings.changed({"backend": {"url": "http://localhost:1", "model": "m"}})
    with pytest.raises(ConfigError, match="backend: its server takes"):
        SETTINGS.changed({"backend": {"url": "http://localhost:1", "model": "m"}}).refuse_on(2)
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="device_map auto does nothing without a GPU"):
            load_checkpoint(str(tmp_path), device_map="auto")
