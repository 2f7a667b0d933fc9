"""The loop in one file (`examples/loop.py`), with few steps."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

LOOP = Path(__file__).resolve().parent.parent / "examples" / "loop.py"


def test_the_loop_trains_and_says_how_often_a_guess_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    rate, guessed = runpy.run_path(str(LOOP))["train"](4)
    assert 0 <= rate <= 1
    assert guessed == pytest.approx(1 / 3)  # eight swaps reach the three even permutations, which give different states
    printed = capsys.readouterr().out
    assert "a state every 8 commands" in printed
    assert "answers right" in printed


def test_the_loop_stays_short() -> None:
    assert len(LOOP.read_text(encoding="utf-8").splitlines()) <= 150
