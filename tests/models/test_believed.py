"""The script that shows a model a false value."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import believed
from benchmarks.sessions import Run
from remedy.data_gen.settings import UserError, build
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.train.config import RunConfig
from tests.models.test_reflections import trained


class Reader:
    """Says the value of the variable that is asked for, going back through the swaps to where it was shown: to the first place of all
    if it `carries`, else to the latest."""

    def __init__(self, tokenizer: TraceTokenizer, carries: bool) -> None:
        self.tokenizer, self.carries = tokenizer, carries

    def __call__(self, input_ids: Tensor) -> SimpleNamespace:
        logits = torch.zeros(*input_ids.shape, self.tokenizer.vocab_size)
        for logit, row in zip(logits, input_ids.tolist()):
            logit[-1, self._value(row)] = 1.0
        return SimpleNamespace(logits=logits)

    def _value(self, row: list[int]) -> int:
        words = [self.tokenizer.decode([token]) for token in row]
        name, found = words[-1], 0
        for place in reversed(range(len(row) - 1)):
            if words[place] == name and (self.carries or not found):
                found = row[place + 1]
            elif "=" in words[place] and name in words[place]:
                name = next(letter for letter in words[place] if letter.isalpha() and letter != name)
        return found


def _run(reveal: dict[str, object], carries: bool) -> Run:
    settings = {
        "data": {
            "task": {"kind": "permutation", "n": 5, "moves": "swaps", "length": 4, "distinct_values": True},
            "format": "symbolic",
            "context": False,
            "reveal": reveal,
        },
        "tokenizer": {"kind": "symbols"},
        "model": {"mixers": ["deltanet"], "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
        "train": {"max_steps": 2, "batch_size": 2},
    }
    config = build(RunConfig, settings, "run")
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    model: Any = Reader(tokenizer, carries)
    return Run(config, model, tokenizer)


@pytest.mark.parametrize("carries", [True, False])
@pytest.mark.parametrize("reveal", [{"locals": "one_in_turn", "spacing": 4}, {"locals": "full", "spacing": 4}])
def test_who_carries_says_what_is_true_and_who_believes_what_is_false(reveal: dict[str, object], carries: bool) -> None:
    run = _run(reveal, carries)
    asked = believed.questions(run, 11, 20)
    assert all(one.true != one.false and one.truly != one.falsely for one in asked)
    names = [one.names for one in asked]
    assert {len(one) for one in names} == {1, 2, 3, 4, 5}
    assert believed.said(run.model, [one.truly for one in asked], names) == [one.true for one in asked]
    expected = [one.true if carries else one.false for one in asked]
    assert believed.said(run.model, [one.falsely for one in asked], names) == expected


def test_a_run_whose_programs_show_nothing_on_the_way_is_refused() -> None:
    with pytest.raises(UserError, match="no value is shown between the commands"):
        believed.questions(_run({"spacing": float("inf")}, carries=True), 11, 1)


def test_runs_are_told_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path / "shown", {"short_convolution": False})
    monkeypatch.setattr(sys, "argv", ["believed.py", str(run), "--lengths", "3", "6", "--programs", "4"])
    believed.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith(f"| {run.name} ")]
    assert [row[1] for row in rows] == ["3", "6"]
    assert all(sum(float(share.strip(" |%")) for share in row[3:]) == 100 for row in rows)
