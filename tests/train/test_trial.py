"""Holds the cost that is said of a training before it begins to what the training then counts."""

from pathlib import Path
from typing import Any

from remedy.models.model_manifest import read_training
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.trial import cost

SETTINGS: dict[str, Any] = {
    "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}, "format": "symbolic"},
    "tokenizer": {"kind": "symbols"},
    "model": {"hidden_size": 16, "num_attention_heads": 2},
    "train": {
        "batch_size": 4,
        "micro_batch_size": 2,
        "threads": 1,
        "curriculum": [{"steps": 2}, {"steps": 3, "set": {"task.length": 9}}],
    },
    "tracking": {"report_to": []},
}


def test_tokens_and_operations_are_those_of_the_training(tmp_path: Path) -> None:
    """Examples of a stage are equally long, so that the first batch says what all have."""
    run = build(RunConfig, {**SETTINGS, "output": str(tmp_path / "run")})
    found = cost(run)
    assert not (tmp_path / "run").exists()
    account = read_training(train(run))
    assert account is not None
    assert (found.tokens, found.flops) == (account["tokens"], account["flops"])
    assert found.computed == found.tokens
    assert found.seconds is not None
    assert 0 < found.seconds < 60
    assert found.memory is not None
    assert found.memory > 1 << 27
    assert cost(run, processes=2)[:3] == found[:3]


def test_padding_is_that_of_the_pieces_and_what_cannot_be_measured_is_said(tmp_path: Path) -> None:
    data = {**SETTINGS["data"], "task": {**SETTINGS["data"]["task"], "length": [2, 9]}}
    settings = {**SETTINGS, "data": data, "output": str(tmp_path), "train": {"batch_size": 8, "max_steps": 5}}
    whole = cost(build(RunConfig, settings))
    in_pieces = cost(build(RunConfig, {**settings, "train": {**settings["train"], "micro_batch_size": 1}}))
    assert whole.tokens is not None
    assert whole.computed is not None
    assert whole.computed > whole.tokens == in_pieces.tokens == in_pieces.computed
    missing = {**settings, "model": {"kind": "pretrained", "name_or_path": "facebook/no-such"}}
    found = cost(build(RunConfig, missing))
    assert (found.tokens, found.seconds) == (whole.tokens, None)
    assert found.remark.startswith("not measured: model 'facebook/no-such' cannot be loaded")
