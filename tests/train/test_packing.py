"""Training on packed rows is training on their examples: the same losses step by step as in rows of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import read_metrics
from tests.models.test_tokenizer import write_llama

TRAIN = {"max_steps": 4, "logging_steps": 1, "save_steps": 2, "threads": 1, "learning_rate": 0.003}
RUN: dict[str, Any] = {
    "data": {"task": {"kind": "permutation", "n": 3, "length": [1, 5]}, "format": "repl"},
    "tokenizer": {"kind": "chars"},
    "model": {"mixers": ["deltanet", "mamba", "attention"], "num_hidden_layers": 3, "hidden_size": 32},
    "tracking": {"report_to": []},
}


def losses(folder: Path, resume: bool = False, train_settings: dict[str, Any] | None = None, **run: Any) -> list[float]:
    settings = {**RUN, **run, "train": {**TRAIN, **(train_settings or {})}, "output": str(folder)}
    train(build(RunConfig, settings, "test"), resume=resume)
    return [record["loss"] for record in read_metrics(folder / "metrics.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["decoder", "adapters"])
def test_packed_rows_have_the_losses_of_their_examples(model: str, tmp_path: Path) -> None:
    run: dict[str, Any] = {}
    if model != "decoder":
        write_llama(False, tmp_path / "tiny")  # which never saw a trace: the rows of new tokens are trained too
        name, lora = str(tmp_path / "tiny"), {"r": 4, "lora_dropout": 0.0}
        run["model"] = {"kind": "pretrained", "name_or_path": name, "lora": lora}
        run["tokenizer"] = {"kind": "hf", "name_or_path": name}
    alone = losses(tmp_path / "alone", train_settings={"batch_size": 6}, **run)
    packed = {"batch_size": 3, "pack": 2, "micro_batch_size": 1}
    assert losses(tmp_path / "packed", train_settings=packed, **run) == pytest.approx(alone, abs=1e-4)


def test_a_packed_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    packed = {"batch_size": 2, "pack": 3}
    whole = losses(tmp_path / "whole", train_settings=packed)
    for left in (tmp_path / "whole").glob("*"):
        if left.name in ("checkpoint-4", "model.safetensors", "complete.json"):
            left.rename(tmp_path / left.name)
    assert losses(tmp_path / "whole", resume=True, train_settings=packed) == whole
    kept, again = (folder / "model.safetensors" for folder in (tmp_path, tmp_path / "whole"))
    assert again.read_bytes() == kept.read_bytes()
