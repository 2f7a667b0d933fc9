"""The script that has a state written down and read anew."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import patching, restarts
from benchmarks.sessions import opened, programs
from tests.models.test_reflections import trained


class Follows:
    """A model that follows swaps from what it read, where that agrees, and after `limit` takes the first value for the second."""

    def __init__(self, swaps: dict[tuple[int, int], int], names: list[int], vocabulary: int, limit: int) -> None:
        self.swaps = {token: places for places, token in swaps.items()}
        self.names, self.vocabulary, self.limit = names, vocabulary, limit

    def new_cache(self) -> list[Tensor]:
        return []

    def __call__(self, input_ids: Tensor, past_key_values: list[Tensor], use_cache: bool) -> SimpleNamespace:
        past_key_values.append(input_ids)
        rows = torch.cat(past_key_values, 1).tolist()
        logits = torch.zeros(len(rows), input_ids.shape[1], self.vocabulary)
        for logit, row in zip(logits, rows):
            logit[-1, self._next(row)] = 1.0
        return SimpleNamespace(logits=logits)

    def _next(self, row: list[int]) -> int:
        commands = [place for place, token in enumerate(row) if token in self.swaps]
        before = row[: commands[0]]
        values = [before[before.index(name) + 1] for name in self.names]
        last = [before[len(before) - before[::-1].index(name)] for name in self.names]
        if values != last:  # the state stands twice before the first command
            return 0
        for place in commands:
            first, second = self.swaps[row[place]]
            values[first], values[second] = values[second], values[first]
        if len(commands) > self.limit:
            values[1] = values[0]
        return values[self.names.index(row[-1])]


@pytest.mark.parametrize(
    ("every", "limit", "right"), [(1, 1, True), (4, 4, True), (9, 9, True), (5, 4, False), (9, 8, False)]
)
def test_a_state_that_is_read_anew_is_followed_as_far_as_one_piece_reaches(
    every: int, limit: int, right: bool, tmp_path: Path
) -> None:
    run = trained(tmp_path, {"short_convolution": False})
    found = opened(run)
    given = programs(found, 9, range(6))
    assert given.commands.shape == (6, 9)
    copies = given.begins[:, given.values]
    assert (copies == copies[:, :1]).all(), "each stands for the same values"
    swaps = patching.swap_tokens(found.tokenizer, 5)
    assert set(given.commands.flatten().tolist()) <= set(swaps.values())
    model = Follows(swaps, given.ends[0, ::2].tolist(), found.tokenizer.vocab_size, limit)
    same = restarts.ends_of(model, given, every) == given.ends[:, 1::2]
    assert bool(same.all()) is right
    assert right or not same.all(1).any()


def test_what_is_written_is_what_the_model_would_write_token_by_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, {"short_convolution": False})
    model: Any = opened(run).model
    given = programs(opened(run), 4, range(3))
    rows = torch.cat([given.begins, given.commands], 1)
    with torch.inference_mode():
        written = restarts.written(model, rows, given.ends[:, ::2])
        for name, values in zip(given.ends[:, ::2].T, written.T):
            rows = torch.cat([rows, name[:, None]], 1)
            assert torch.equal(model(input_ids=rows).logits[:, -1].argmax(-1), values)
            rows = torch.cat([rows, values[:, None]], 1)
    monkeypatch.setattr(
        sys, "argv", ["restarts.py", str(run), "--every", "4", "8", "--lengths", "8", "--programs", "5"]
    )
    restarts.main()
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if str(run) in line]
    assert [line[1:3] for line in lines] == [["8", "4"], ["8", "none"]]
    assert all(line[3].endswith(" of 5") for line in lines)
    states = given.begins.shape[1] + given.ends.shape[1]
    assert [line[5].strip(" |") for line in lines] == [f"{1 + states / 4:.2f}", f"{1 + states / 8:.2f}"]
