"""Rates of recipes that share no programs are compared by their seeds, as results/study/equal_examples says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.rates import lines

FOLDER = Path(__file__).parents[1] / "results" / "study" / "equal_examples"
WHERE = {"form": "flattened"}


def test_the_page_says_what_the_records_hold() -> None:
    assert lines(FOLDER, ["subwords", "rare-characters", "characters"], WHERE)[2:] == [
        "characters: 95.7, 99.3, 93.7, 96.7, 95.7, 86.3 %",
        "rare-characters against subwords: +35.1 points, p = 0.0022",
        "characters against subwords: +59.2 points, p = 0.0022",
        "characters against rare-characters: +24.1 points, p = 0.0325",
    ]
