"""Windows on an example: every token is predicted in one of them, from the context, the frames that are remembered and its own."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.program import Event
from remedy.data_gen.memory import Memory
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.tokens import Tokens
from remedy.data_gen.traces.cwm import EVENT_TOKENS
from remedy.data_gen.window_examples import drawn_window, longest_seen, window_tokens, windows_of
from remedy.eval.decoding.memory import RememberedTokens
from remedy.launch.generate import GenerateConfig
from remedy.settings import ConfigError, build
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
    return built(range(count), roles, numbers)


def built(ids: Sequence[int], roles: Sequence[int], frames: Sequence[int]) -> Tokens:
    places = np.arange(len(ids))
    return Tokens(np.array(ids), np.array(roles, np.int8), np.array(frames, np.int32), places < 0, places)


@given(EXAMPLES, st.integers(1, 8))
def test_every_token_is_predicted_once_from_what_is_remembered(
    example: tuple[int, list[tuple[int, int]]], memory: int
) -> None:
    tokens = tokens_of(*example)
    order = list(dict.fromkeys(tokens.frames.tolist()))
    supervised: list[int] = []
    for window in windows_of(tokens, Memory(frames=memory), {}):
        row = window_tokens(tokens, window)
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
    for memory in (None, Memory(frames=len(example[1]) + 1)):
        (window,) = windows_of(tokens, memory, {})
        for one, other in zip(window_tokens(tokens, window), tokens):
            assert one.tolist() == other.tolist()
        assert (
            longest_seen(tokens.ids.tolist(), tokens.roles.tolist(), tokens.frames.tolist(), memory, {}) == tokens.size
        )


SPECIAL = {special: 1000 + number for number, special in enumerate(Special)}
SEPARATED = (Special.ACTION_SEP, Special.FRAME_SEP)
VALUED = (Special.ACTION_SEP, Special.ARG_SEP, Special.FRAME_SEP)


def form(event: Event) -> tuple[Special, ...]:
    return (EVENT_TOKENS[event], *(VALUED if event in (Event.RETURN, Event.EXCEPTION) else SEPARATED))


FRAMES = st.lists(
    st.one_of(
        st.sampled_from([(event, form(event)) for event in Event]),
        st.lists(st.sampled_from(list(Special)), max_size=4).map(lambda found: (None, tuple(found))),
        st.sampled_from([(None, form(event)) for event in Event]),
    ),
    max_size=14,
)
"""The event and the special tokens of each frame; no event of one that is unreadable, as is whatever begins with text."""


def frames_of(found: list[tuple[Event | None, tuple[Special, ...]]]) -> Tokens:
    """An example with a context of two tokens, and text between the special tokens of each frame."""
    ids, frames = [1, 2], [-1, -1]
    for number, (event, specials) in enumerate(found):
        written = [number + 10, *(part for special in specials for part in (SPECIAL[special], number + 10))]
        written = written[1:-1] if event else written
        ids += written
        frames += [number] * len(written)
    return built(ids, [Role.CONTEXT if frame < 0 else Role.STATE for frame in frames], frames)


def says_where_calls_stand(events: list[Event | None]) -> list[int]:
    """By the whole past, read anew: the frames of open calls that are theirs, of each since it last went on to another line."""
    calls: list[tuple[int | None, list[int]]] = [(None, [])]
    for number, event in enumerate(events):
        if event is Event.CALL:
            calls.append((number, []))
        elif event is Event.RETURN:
            if len(calls) > 1:  # else it is the entry point's own, after which nothing goes on
                calls.pop()
                calls[-1][1].append(number)
        elif event is not None:
            calls[-1][1].append(number)
    found: list[int] = []
    for call, own in calls:
        lines = [place for place, number in enumerate(own) if events[number] is Event.LINE]
        found += ([] if call is None else [call]) + own[lines[-1] if lines else 0 :]
    return found


@given(FRAMES, st.integers(1, 4))
def test_where_open_calls_stand_is_remembered(found: list[tuple[Event | None, tuple[Special, ...]]], most: int) -> None:
    tokens, events = frames_of(found), [event for event, _ in found]
    memory = Memory(frames=most, open_calls=True)
    cut = windows_of(tokens, memory, SPECIAL)
    predicted: list[int] = []
    sight, ids = RememberedTokens([1, 2], memory, SPECIAL), tokens.ids.tolist()
    for window in cut:
        row, places = window_tokens(tokens, window), window.positions
        assert row.size == window.size
        for place, position in enumerate(places):
            if position < max(window.start, 2):
                assert row.roles[place] == Role.CONTEXT
                continue
            predicted.append(position)
            now = int(tokens.frames[position])
            remembered = {-1, *range(now - most, now + 1), *says_where_calls_stand(events[:now])}
            past = [at for at in range(position) if tokens.frames[at] in remembered]
            assert places[:place] == past
            assert sight.tokens() == row.ids[:place].tolist()
            assert sight.size == place
            reach = sight.reach((ids[at], is_last(tokens, at)) for at in range(position, tokens.size))
            assert sight.take(ids[position], is_last(tokens, position)) == (
                position == window.stop - 1 and window is not cut[-1]
            )
            assert reach == (None if window is cut[-1] else window.stop - 1 - position)
    assert predicted == list(range(2, tokens.size))


def is_last(tokens: Tokens, at: int) -> bool:
    return at + 1 < tokens.size and bool(tokens.frames[at + 1] != tokens.frames[at])


def test_windows_that_predict_something_learnt_are_drawn_alike() -> None:
    tokens = tokens_of(2, [(1, 2)] * 3 + [(1, 1)] * 2)  # frames of an action and a state, then an action, then a state
    learnt = np.array([Role.STATE], np.int8)
    drawn = [drawn_window(tokens, Memory(frames=1), learnt, (number << 61) + 7, {}) for number in range(8)]
    stops = [int(row.ids[-1]) + 1 for row in drawn]
    assert {stop: stops.count(stop) for stop in stops} == {6: 3, 8: 3, 10: 2}  # never the window of the fourth frame
    assert drawn_window(tokens, Memory(frames=1), np.array([Role.VALUE], np.int8), 5, {}).size == 6
    assert drawn_window(tokens, None, learnt, 5, {}) is tokens


def test_what_does_not_go_with_windows_is_refused() -> None:
    data = {"task": PERMUTATION, "format": "symbolic", "memory": 2}
    with pytest.raises(ConfigError, match=r"data\.memory 2 does nothing in a data set, which holds whole examples"):
        build(GenerateConfig, {"data": data})
    with pytest.raises(ConfigError, match=r"memory\.open_calls: the symbolic format writes no events"):
        build(DataConfig, {**data, "memory": {"frames": 2, "open_calls": True}})
    with pytest.raises(ConfigError, match="memory 2: nothing that a model writes in the repl format"):
        build(DataConfig, {**data, "format": "repl"})
    learnt = {"loss_roles": ["context", "state"]}
    with pytest.raises(ConfigError, match="context"):
        build(RunConfig, {"data": data, "train": learnt})
    late = {"curriculum": [{"steps": 1}, {"steps": 1, "set": {"memory": 2}}], **learnt}
    with pytest.raises(ConfigError, match="context"):
        build(RunConfig, {"data": {**data, "memory": None}, "train": late})
