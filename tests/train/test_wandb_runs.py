"""Names and tables of what is sent to Weights & Biases, by a stand-in for its client."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerState

from remedy.train.tracking import Tracking
from remedy.train.validation import Sample
from tests.train.test_validation import settings


def test_figures_have_namespaces_and_axes_and_samples_are_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, dict[str, Any]]] = []
    run = SimpleNamespace(log=lambda record, step: sent.append((step, record)), dir="x")
    client = SimpleNamespace(init=lambda **_: run, login=lambda **_: False, Table=lambda **table: table)
    monkeypatch.setitem(sys.modules, "wandb", client)
    tmp_path.joinpath("run").mkdir()
    config = settings(tmp_path / "run").changed({"tracking.wandb": True})
    logger, state = Tracking(config), TrainerState(global_step=5, num_input_tokens_seen=70, total_flos=9.0)
    logger.on_train_begin(None, TrainerState(), None)
    logger.on_log(None, state, None, logs={"loss": 1.5, "train_runtime": 2.0})
    logger.on_log(None, state, None, logs={"eval_loss_state": 0.5})
    logger.samples(5, [Sample("a 1", "a 2", 1)])
    axes = {"progress/examples": 5 * config.train.batch_size, "progress/tokens": 70, "progress/flops": 9.0}
    table = {"columns": ["step", "true", "predicted", "wrong tokens"], "data": [[5, "a 1", "a 2", 1]]}
    assert sent == [
        (5, {"train/loss": 1.5, "train/runtime": 2.0, **axes}),
        (5, {"eval/loss_state": 0.5, **axes}),
        (5, {"eval/samples": table}),
    ]
