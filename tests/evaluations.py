"""Evaluations' folders, compared."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.folder import GENERATIONS, RECORDS, UNFINISHED


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
    sure = [column for column in mine if "logprob" in str(column) or "margin" in str(column)]
    assert mine.drop(columns=sure).map(str).equals(others.drop(columns=sure).map(str))
    for column in sure:
        for a, b in zip(mine[column], others[column]):
            assert a == pytest.approx(b, abs=3e-4)
