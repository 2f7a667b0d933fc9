"""The script that puts one head's state in the place of another's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import drift, patching
from remedy.models.loading import load_checkpoint
from tests.models.test_reflections import trained

PLACES = {(first, second): 10 * first + second for first in range(5) for second in range(5) if first != second}


@given(st.permutations("pqrst"), st.permutations("pqrst"))
def test_the_short_way_leads_where_the_long_one_does(before: list[str], after: list[str]) -> None:
    numbers = [list(map(ord, values)) for values in (before, after)]
    way = patching.short_way(*numbers, PLACES)
    values = list(numbers[0])
    for command in way:
        first, second = divmod(command, 10)
        values[first], values[second] = values[second], values[first]
    assert values == numbers[1]
    assert 5 <= len(way) <= 6


def test_all_states_of_the_other_program_are_the_other_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, {"short_convolution": False})
    model, tokenizer = load_checkpoint(str(run))
    swaps = patching.swap_tokens(tokenizer, 5)
    assert len(swaps) == 20
    assert len(set(swaps.values())) == 10
    (long,) = [patching.read(model, [0, swaps[0, 1], swaps[1, 2]])]
    (short,) = [patching.read(model, [0, swaps[0, 1]])]
    assert patching.patched(short, long, None) is long
    found = patching.patched(short, long, (0, 1))
    assert torch.equal(found[0][1], long[0][1])
    assert torch.equal(found[0][0], short[0][0])
    assert not torch.equal(long[0][1], short[0][1])
    # Answers from a state that was put in place are those of reading straight on.
    names, answer = [swaps[0, 1], swaps[1, 2], swaps[2, 3]], list[int]()
    for name in names:
        row = torch.tensor([[0, swaps[0, 1], swaps[1, 2], *answer, name]])
        answer += [name, int(model(input_ids=row).logits[0, -1].argmax())]
    assert patching.right(model, [long], torch.tensor([answer])) == 1
    answer[-1] = (answer[-1] + 1) % tokenizer.vocab_size
    assert patching.right(model, [long], torch.tensor([answer])) == 0
    monkeypatch.setattr(sys, "argv", ["patching.py", str(run), "--lengths", "9", "--programs", "4"])
    patching.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| ")][1:] == [
        "| all",
        "| layer 1",
        "| layer 1, head 1",
        "| layer 1, head 2",
    ]


def test_drift_is_none_from_a_state_to_itself_and_margins_say_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, {"short_convolution": False})
    model, tokenizer = load_checkpoint(str(run))
    swaps = patching.swap_tokens(tokenizer, 5)
    one, other = (patching.read(model, [0, *row]) for row in ([swaps[0, 1]], [swaps[0, 1], swaps[1, 2]]))
    assert torch.equal(drift.distances([one], [one]), torch.zeros(1, 2))
    doubled = [2 * layer for layer in one]
    torch.testing.assert_close(drift.distances([doubled, one], [one, one]), torch.full((1, 2), 0.5))
    assert (drift.distances([other], [one]) > 0).all()
    answer = list[int]()
    for name in (swaps[0, 1], swaps[1, 2], swaps[2, 3]):
        row = torch.tensor([[0, swaps[0, 1], *answer, name]])
        answer += [name, int(model(input_ids=row).logits[0, -1].argmax())]
    wrong = [*answer[:-1], (answer[-1] + 1) % tokenizer.vocab_size]
    above = drift.margins(model, [one, one], torch.tensor([answer, wrong]))
    assert above[0] > 0 > above[1]
    monkeypatch.setattr(sys, "argv", ["drift.py", str(run), "--lengths", "4", "9", "--programs", "3"])
    drift.main()
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith(("| 4 ", "| 9 "))]) == 2
