"""Held-out pairs of commands: training never has one, every state still meets every command, tests have one or none as asked."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.data_gen.tasks.permutation_programs import commands, held_out_successors, move_table, states

SWAPS: dict[str, Any] = {"kind": "permutation", "n": 3, "moves": "swaps", "length": (2, 6), "held_out_pairs": 1}


def pairs(text: str, lines: list[str]) -> list[tuple[str, str]]:
    """The commands that follow each other in a program, read from its text."""
    said = [line.strip() for line in text.splitlines() if line.strip() in lines]
    return list(pairwise(said))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 6),
    st.sampled_from(["swaps", "full"]),
    st.sampled_from([2, (2, 9), 12]),
    st.sampled_from([None, 2, (2, 3)]),
    st.sampled_from(["cwm", "repl", "symbolic"]),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_training_never_has_a_pair_and_tests_have_what_is_asked(
    n: int, moves: str, length: object, repertoire: object, form: str, count: int, seed: int
) -> None:
    task = {"kind": "permutation", "n": n, "moves": moves, "length": length, "repertoire": repertoire}
    task["held_out_pairs"] = min(count, len(move_table(n, moves)) // 2)  # type: ignore[arg-type]
    data = DataConfig.model_validate({"task": task, "format": form, "seed": seed})
    lines = commands(n, moves)  # type: ignore[arg-type]
    after = held_out_successors(n, moves, task["held_out_pairs"], seed)  # type: ignore[arg-type]
    held = {(lines[first], lines[second]) for first, second in enumerate(after) if second >= 0}
    assert len(held) == task["held_out_pairs"]
    for split, asked in (("train", None), ("validation", None), ("test", "without"), ("test", "with"), ("test", None)):
        for example in examples(data.changed({"task.test_pairs": asked}), split, range(12)):
            found = sum(pair in held for pair in pairs(example.program, lines))
            assert example.slices["held_out_pairs"] == found
            assert found >= 1 if asked == "with" else found == 0 or (split, asked) == ("test", None)
            if repertoire is not None:
                known = {line for pair in pairs(example.program, lines) for line in pair}
                assert len(known) <= (repertoire if isinstance(repertoire, int) else 3)


def test_every_state_meets_every_command_in_training_and_commands_are_as_uniform_as_they_can_be() -> None:
    task = PermutationTask.model_validate({**SWAPS, "length": 6, "distinct_values": True})
    _, batch = task._batch("train", np.arange(60_000), 0)
    after = held_out_successors(3, "swaps", 1, 0)
    orders = np.argsort(states(batch)[:, :-1], axis=2) @ (9, 3, 1)  # the state, up to which digits there are
    for place in range(6):
        seen = Counter(zip(orders[:, place].tolist(), batch.moves[:, place].tolist()))
        assert len(seen) == 6 * 3
    following = Counter(zip(batch.moves[:, :-1].ravel().tolist(), batch.moves[:, 1:].ravel().tolist()))
    for first, forbidden in enumerate(after):
        shares = np.array([following[first, second] for second in range(3)]) / sum(
            following[first, second] for second in range(3)
        )
        expected = np.array([0.0 if second == forbidden else 1 / (3 - (forbidden >= 0)) for second in range(3)])
        assert np.abs(shares - expected).max() < 0.01


@given(st.integers(3, 6), st.sampled_from(["swaps", "full"]), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_pairs_do_not_commute_and_share_no_command_in_one_place(n: int, moves: Any, seed: int) -> None:
    table = move_table(n, moves)
    most = len(table) // 2
    after = held_out_successors(n, moves, most, seed)
    first = np.flatnonzero(after >= 0)
    assert len(first) == most == len(set(after[first].tolist()))
    for one, other in zip(table[first], table[after[first]]):
        assert (one[other] != other[one]).any()
    fewer = held_out_successors(n, moves, 1, seed)
    assert ((fewer < 0) | (fewer == after)).all()  # one more pair leaves the others as they are


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"held_out_pairs": 2}, "held_out_pairs must be 0 to 1, half of the commands of n 3 and moves swaps; got 2"),
        ({"held_out_pairs": 0, "test_pairs": "with"}, "task.test_pairs with does nothing without held_out_pairs"),
        ({"test_pairs": "with", "length": (1, 4)}, "needs length and repertoire of at least 2; got 1"),
        ({"test_pairs": "with", "repertoire": 1}, "needs length and repertoire of at least 2; got 1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        DataConfig.model_validate({"task": {**SWAPS, **changes}})
