"""Windows on an example: every token is predicted in one of them, from the context, the frames that are remembered and its own."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.tokens import Tokens
from remedy.data_gen.windows import drawn_window, longest_seen, seen, windows
from remedy.launch.generate import GenerateConfig
from remedy.train.config import RunConfig

EXAMPLES = st.builds(
    lambda context, frames: (context, frames),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=7),
)
"""Tokens of the context; by how much each frame's number is above that of the frame before, and its tokens."""
PERMUTATION = {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 5]}


def tokens_of(context: int, frames: list[tuple[int, int]]) -> Tokens:
    numbers = [-1] * context
    for number, (_, size) in zip(accumulate(step for step, _ in frames), frames):
        numbers += [number] * size
    count = len(numbers)
    roles = [Role.CONTEXT] * context + [Role.STATE if at % 2 else Role.ACTION for at in range(count - context)]
    return Tokens(np.arange(count), np.array(roles, np.int8), np.array(numbers, np.int32), np.zeros(count, np.bool_))


@given(EXAMPLES, st.integers(1, 8))
def test_every_token_is_predicted_once_from_what_is_remembered(
    example: tuple[int, list[tuple[int, int]]], memory: int
) -> None:
    tokens = tokens_of(*example)
    order = list(dict.fromkeys(tokens.frames.tolist()))
    supervised: list[int] = []
    for window in windows(tokens.roles.tolist(), tokens.frames.tolist(), memory):
        row = seen(tokens, window)
        assert row.size == window.size
        for place, position in enumerate(row.ids.tolist()):
            if row.roles[place] == Role.CONTEXT:
                continue
            supervised.append(position)
            assert (row.roles[place], row.frames[place]) == (tokens.roles[position], tokens.frames[position])
            now = order.index(tokens.frames[position])
            remembered = order[max(1, now - memory) : now + 1]
            past = [at for at in range(position) if tokens.frames[at] == -1 or tokens.frames[at] in remembered]
            assert row.ids[:place].tolist() == past
    assert supervised == [at for at, role in enumerate(tokens.roles) if role != Role.CONTEXT]


@given(EXAMPLES)
def test_a_memory_of_all_frames_sees_the_example_as_it_is(example: tuple[int, list[tuple[int, int]]]) -> None:
    tokens = tokens_of(*example)
    for memory in (None, len(example[1]) + 1):
        (window,) = windows(tokens.roles.tolist(), tokens.frames.tolist(), memory)
        for one, other in zip(seen(tokens, window), tokens):
            assert one.tolist() == other.tolist()
        assert longest_seen(tokens.roles.tolist(), tokens.frames.tolist(), memory) == tokens.size


def test_windows_that_predict_something_learnt_are_drawn_alike() -> None:
    tokens = tokens_of(2, [(1, 2)] * 3 + [(1, 1)] * 2)  # frames of an action and a state, then an action, then a state
    learnt = np.array([Role.STATE], np.int8)
    drawn = [drawn_window(tokens, 1, learnt, (number << 61) + 7) for number in range(8)]
    stops = [int(row.ids[-1]) + 1 for row in drawn]
    assert {stop: stops.count(stop) for stop in stops} == {6: 3, 8: 3, 10: 2}  # never the window of the fourth frame
    assert drawn_window(tokens, 1, np.array([Role.VALUE], np.int8), 5).size == 6
    assert drawn_window(tokens, None, learnt, 5) is tokens


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            {"format": "repl"},
            "memory 2: nothing that a model writes in the repl format says where a frame ends: use cwm",
        ),
        ({"reveal": {"answer_only": True}}, "memory 2 does nothing with reveal.answer_only"),
        ({"memory": 0}, "memory.*greater than or equal to 1"),
    ],
)
def test_a_memory_that_means_nothing_is_refused(data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(DataConfig, {"task": PERMUTATION, "memory": 2, **data})


def test_what_does_not_go_with_windows_is_refused() -> None:
    data = {"task": PERMUTATION, "format": "symbolic", "memory": 2}
    with pytest.raises(ConfigError, match=r"data\.memory 2 does nothing in a data set, which holds whole examples"):
        build(GenerateConfig, {"data": data})
    for train, says in (({"pack": 2}, r"train\.pack 2 does not go"), ({"loss_roles": ["context", "state"]}, "context")):
        with pytest.raises(ConfigError, match=says):
            build(RunConfig, {"data": data, "train": train})
        late = {"curriculum": [{"steps": 1}, {"steps": 1, "set": {"memory": 2}}], **train}
        with pytest.raises(ConfigError, match=says):
            build(RunConfig, {"data": {**data, "memory": None}, "train": late})
