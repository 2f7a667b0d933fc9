"""What is served in tests: small models, and evaluations of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.generators import server
from remedy.eval.generators.backend import KEY
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import build
from tests.tiny_models import small_decoder, tokenizer_for

FORCINGS = ["free", "line_forced", "action_forced", "state_forced", "teacher_forced", ["context", "structure", "value"]]
TASK = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}
SYMBOLIC = DataConfig.model_validate({"task": TASK, "format": "symbolic", "reveal": {"spacing": 2}})
CWM = DataConfig.model_validate({"task": {**TASK, "length": 1, "answer": "none"}, "reveal": {"spacing": 1}})


def model_for(data: DataConfig, seed: int = 0) -> tuple[Any, TraceTokenizer]:
    tokenizer = tokenizer_for(data)
    return small_decoder(tokenizer, ("gru", "attention"), seed=seed), tokenizer


def settings_for(
    forcings: Sequence[Any] = ("free",), backend: Mapping[str, Any] | None = None, examples: int = 3, **settings: Any
) -> EvalConfig:
    diagnostic = {"kind": "permutation", "lengths": [4], "forcing": list(forcings), "examples": examples}
    found = {"diagnostics": [diagnostic], "max_new_tokens": 100, "batch_size": 3, **settings}
    return build(EvalConfig, {**found, **({"backend": backend} if backend else {})}, "x")


def backend_for(url: str, **settings: Any) -> dict[str, Any]:
    return {"url": url, "model": "tiny", "patience": 20.0, **settings}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_PAUSE", 0.01)
    monkeypatch.delenv(KEY, raising=False)


def evaluated(model: Any, tokenizer: TraceTokenizer, config: EvalConfig, folder: Path) -> Path:
    evaluate(model, tokenizer, CheckpointInfo(SYMBOLIC, weights="w"), config, folder, "run")
    return folder
