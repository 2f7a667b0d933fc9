"""Evaluations of random weights, to be interrupted or divided, and evaluations' folders, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.eval.records.folder import GENERATIONS, RECORDS, UNFINISHED
from tests.tiny_models import small_decoder, tokenizer_for

DATA = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 2, "answer": "none"}, "format": "cwm"}


def of_random_weights(folder: Path, diagnostic: dict[str, Any], longest: int) -> tuple[Path, Path]:
    """A checkpoint, and the configuration of an evaluation that asks it for this, in so many tokens at most."""
    tokenizer = tokenizer_for(DataConfig.model_validate(DATA))
    small_decoder(tokenizer, ("gru", "attention"), 64).save_pretrained(folder / "model")
    tokenizer.save(folder / "model")
    config = {"set": DATA, "diagnostics": [diagnostic], "max_new_tokens": longest, "batch_size": 2}
    (folder / "any.yaml").write_text(json.dumps(config))
    return folder / "model", folder / "any.yaml"


def table(folder: Path) -> pd.DataFrame:
    """All files of a folder, one after another."""
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


def unfinished(folder: Path) -> list[str]:
    """The lines that are kept of conditions that are not done."""
    return [line for path in folder.glob(f"{UNFINISHED}/*/*.jsonl") for line in path.read_text().splitlines()]


def assert_the_same(one: Path, other: Path) -> None:
    """Records, and what was written to the token; log-probabilities but for rounding."""
    pd.testing.assert_frame_equal(table(one / RECORDS), table(other / RECORDS))
    mine, others = table(one / GENERATIONS), table(other / GENERATIONS)
    sure = [column for column in mine if "logprob" in str(column)]
    assert mine.drop(columns=sure).map(str).equals(others.drop(columns=sure).map(str))
    for column in sure:
        for a, b in zip(mine[column], others[column]):
            assert a == pytest.approx(b, abs=3e-4)
