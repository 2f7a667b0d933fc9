"""The `programs` diagnostic: which programs it evaluates, written and decoded how, and what its records hold."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.records.schema import read_records
from remedy.settings import build
from tests.eval.decoding.test_decoding import small_model
from tests.eval.scoring.test_frames import TOKENIZER, write_programs


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_programs(tmp_path_factory.mktemp("programs") / "own.jsonl")


def evaluation(changes: dict[str, Any], **diagnostic: Any) -> EvalConfig:
    return build(EvalConfig, {"diagnostics": [{"kind": "programs", **diagnostic}], **changes}, "test")


@pytest.mark.slow
def test_ones_own_programs_are_evaluated(programs: Path, tmp_path: Path) -> None:
    source = {"path": str(programs), "tracer": {"max_frames": 500, "timeout_seconds": 3}}
    settings = evaluation(
        {"max_new_tokens": 1500}, sources=[source], rewrites=["none", "all"], reveals=[{"locals": "diff"}]
    )
    data = DataConfig.model_validate({"task": {"kind": "permutation"}})
    summary = evaluate(small_model("gru", TOKENIZER), TOKENIZER, CheckpointInfo(data), settings, tmp_path, "gru")
    rows = pd.concat([read_records(path) for path in (tmp_path / "records").glob("*.parquet")])
    assert len(rows) == 2 * 3 * 4
    assert set(rows["outcome"]) == {"ok", "frames", "network"}
    assert set(rows[rows["outcome"] == "frames"]["failure"]) == {"truncated"}
    assert set(rows[rows["outcome"] == "network"]["failure"]) == {"untraced"}
    assert (rows["failure"] != "").eq(~rows["right"]).all()
    assert rows["python"].str.startswith("CPython 3.").all()
    # A program is the same example however it is rewritten.
    assert rows.groupby("source")["example"].nunique().eq(1).all()
    conditions = json.loads(summary.read_text())["conditions"]
    assert {(condition["examples"], *condition["untraced"].items()) for condition in conditions} == {
        (3, ("network", 1))
    }
    assert [(condition["labels"]["rewrite"], condition["labels"]["answer_only"]) for condition in conditions] == [
        (rewrite, answer_only) for rewrite in ("none", "all") for answer_only in (False, False, True)
    ]
