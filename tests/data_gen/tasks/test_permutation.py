"""Permutation programs: vectorised states equal real execution, arrays equal rendered spans, draws are uniform."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.data_gen.example_table import table_of
from remedy.data_gen.examples import examples, token_arrays
from remedy.data_gen.execution.program import Event, Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import PAD_ROLE, Special
from remedy.data_gen.splits import SPLITS
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.data_gen.tasks.permutation_programs import (
    Moves,
    PermutationBatch,
    commands,
    draw_batch,
    function,
    move_table,
    session,
)
from remedy.data_gen.tasks.task import Guesses
from remedy.data_gen.traces.comparison import same_answer
from remedy.eval.scoring.frames import answer_indices
from remedy.models.encoding import encoded_examples, example_table
from remedy.models.tokenizer import TraceTokenizer
from remedy.models.tokenizer_backends import Symbols, SymbolSettings

configs = st.builds(
    PermutationTask,
    n=st.integers(3, 8),
    moves=st.sampled_from(["swaps", "full"]),
    length=st.sampled_from([1, 5, (0, 9), (3, 12)]),
    distinct_values=st.booleans(),
    repertoire=st.sampled_from([None, 1, 2, (1, 2)]),
)


def drawn(task: PermutationTask, count: int = 4, seed: int = 0) -> PermutationBatch:
    keys = rng.keys(seed, SPLITS["train"].stream, np.arange(count))
    return draw_batch(task.moves, task.n, task.length_range(), task.distinct_values, keys, task.repertoire_range())


@pytest.mark.parametrize(("moves", "count"), [("swaps", 10), ("full", 120)])
def test_move_tables_hold_every_move_once(moves: Moves, count: int) -> None:
    table = move_table(5, moves)
    assert table.shape == (count, 5)
    assert len({tuple(row) for row in table.tolist()}) == count
    assert all(sorted(row) == list(range(5)) for row in table.tolist())


def test_a_repertoire_is_the_programs_own_and_is_used() -> None:
    task = PermutationTask(n=4, moves="full", length=64, repertoire=(2, 5))
    found = [set(row) for row in drawn(task, 200).moves.tolist()]
    assert {len(known) for known in found} == {2, 3, 4, 5}
    assert len(set.union(*found)) == 24
    assert len({frozenset(known) for known in found}) > 190
    with pytest.raises(ValidationError, match="repertoire must be 1 to 24"):
        PermutationTask(n=4, moves="full", repertoire=25)


@settings(max_examples=40, deadline=None)
@given(configs, st.integers(0, 1000))
def test_vectorised_states_equal_real_execution(config: PermutationTask, seed: int) -> None:
    batch = drawn(config, 3, seed)
    for row in range(3):
        computed = session(batch, row)
        body = [*computed.setup, *(f.source.strip() for f in computed.frames if f.source), "pass"]
        code = "def main():  # << START_OF_TRACE\n" + "".join(f"    {line}\n" for line in body)
        real = [f for f in trace(Program(code)).frames if f.event is Event.LINE][len(computed.setup) :]
        assert [f.locals for f in computed.frames] == [f.locals for f in real]


@settings(max_examples=30, deadline=None)
@given(configs)
def test_the_function_form_returns_the_final_state(config: PermutationTask) -> None:
    batch = drawn(config, 2)
    for row in range(2):
        final = session(batch, row).frames[-1].locals or {}
        result = trace(function(batch, row)).result
        assert result is not None
        assert result.text == repr(",".join(f"{name}={value.text}" for name, value in final.items()))


@settings(max_examples=60, deadline=None)
@given(
    configs,
    st.sampled_from([1, 2, 3, float("inf")]),
    st.sampled_from(["full", "one_in_turn", "one_at_random"]),
    st.booleans(),
)
def test_symbolic_arrays_are_the_tokens_of_the_rendered_spans(
    task: PermutationTask, every: float, show: str, context: bool
) -> None:
    data = DataConfig.model_validate(
        {
            "task": task.model_dump(),
            "format": "symbolic",
            "context": context,
            "reveal": {"spacing": every, "locals": show},
        }
    )
    tokenizer = TraceTokenizer(SymbolSettings(), Symbols([*Special, *task.symbols()]))
    arrays = token_arrays(data, "test", [3, 1, 40])
    assert arrays is not None
    outside = np.arange(arrays.ids.shape[1]) >= arrays.lengths[:, None]
    assert (arrays.roles[outside] == PAD_ROLE).all()
    rendered = table_of(encoded_examples(data, tokenizer, "test", [3, 1, 40]))
    assert example_table(data, tokenizer, "test", [3, 1, 40]).equals(rendered)


PUBLISHED = '''
def execute_repl_trace():
    """Execute the REPL trace operations."""
    a = 8
    b = 4
    c = 7
    d = 8
    e = 7
    a, b, c, d, e = c, e, b, a, d
    a, b, c, d, e = e, b, c, d, a
    a, b, c, d, e = b, e, a, c, d
    a, b, c, d, e = a, b, e, d, c
    a, b, c, d, e = b, c, e, a, d
    a, b, c, d, e = e, a, c, b, d
    a, b, c, d, e = a, e, c, b, d
    a, b, c, d, e = b, d, e, c, a
    print(f"c = {c}")
def main():  # << START_OF_TRACE
    execute_repl_trace()
'''
"""As published in the blog that goes with "Debugging code world models", with the indentation that the page lost, and two spaces
before the marker, as the trace format's prompts have: the page shows one, and nowhere a run of spaces."""


def published_batch() -> PermutationBatch:
    lines = commands(5, "full")
    ranks = [lines.index(line.strip()) for line in PUBLISHED.splitlines() if line.startswith("    a, b")]
    return PermutationBatch("full", np.array([8]), np.array([[8, 4, 7, 8, 7]]), np.array([ranks]))


def test_the_published_programs_are_written_to_the_byte() -> None:
    batch = published_batch()
    assert "\n" + function(batch, answer="print").code == PUBLISHED
    assert "\n" + function(batch, answer="none").code == PUBLISHED.replace('    print(f"c = {c}")\n', "")
    task = PermutationTask(moves="full", length=8, answer="print")
    batch = drawn(task, 200)
    assert (np.diff(np.sort(batch.values, axis=1)) == 0).any()  # digits may repeat
    assert len(np.unique(batch.moves)) == 120  # any permutation


@pytest.mark.parametrize("answer", ["print", "none"])
def test_a_program_that_returns_nothing_has_its_answer_in_its_last_state(answer: str) -> None:
    task = {"kind": "permutation", "length": 8, "answer": answer}
    (one,) = examples(DataConfig.model_validate({"task": task}), "test", [0])
    shown = [frame.locals for frame in one.frames if frame.locals is not None][-1]
    assert one.answer == ",".join(f"{name}={value.text}" for name, value in shown.items())
    index = answer_indices(one)[0]
    assert one.frames[index].locals == shown
    written = [frame.as_read() for frame in one.frames]
    assert same_answer(written, written, answer_indices(one))
    wrong = replace(written[index], locals={**(written[index].locals or {}), "a": "77"})
    assert not same_answer(written, [*written[:index], wrong, *written[index:][1:]], answer_indices(one))
    session = DataConfig.model_validate({"task": {**task, "answer": "string"}, "format": "repl"})
    final = examples(session, "test", [0])[0].answer
    assert (one.answer == final) == (answer == "print")  # without the print no state after the last command is shown


def test_draws_are_uniform_and_distinct_means_distinct() -> None:
    config = PermutationTask(n=3, moves="swaps", length=4, distinct_values=True)
    batch = drawn(config, 30_000)
    counts = np.bincount(batch.moves.reshape(-1), minlength=3)
    assert np.abs(counts / counts.sum() - 1 / 3).max() < 0.01
    assert all(len(set(row)) == 3 for row in batch.values[:500].tolist())
    seen = np.unique(batch.values, axis=0)
    assert len(seen) == len(list(itertools.permutations(range(10), 3)))


def test_both_forms_of_the_generator_agree() -> None:
    keys = rng.keys(5, 1, np.array([0, 7, 10**9]), attempt=2)
    assert keys.tolist() == [rng.key(5, 1, i, 2) for i in (0, 7, 10**9)]
    bits = rng.bits_array(keys, np.array([0, 3]))
    assert bits.tolist() == [[rng.bits(key, p) for p in (0, 3)] for key in keys.tolist()]
    assert rng.below_array(bits, 120).tolist() == [[rng.below(b, 120) for b in row] for row in bits.tolist()]


def guesses(settings: dict[str, object], count: int = 400) -> list[Guesses]:
    data = DataConfig.model_validate({"task": {"kind": "permutation", **settings}, "format": "repl"})
    return [data.task.guesses(one.trace, one.answer) for one in examples(data, "test", range(count))]


@pytest.mark.parametrize(
    ("n", "moves", "length", "expected"),
    [
        (3, "swaps", 16, 1 / 3),  # an even number of swaps: 3 of the 6 orders
        (3, "swaps", 1, 1 / 3),
        (3, "swaps", 0, 1),
        (5, "swaps", 16, 1 / 60),
        (5, "swaps", 2, 1 / (1 + 20 + 15)),  # the identity, cycles of three, pairs of swaps
        (5, "full", 8, 1 / 120),
        (3, "swaps", 1000, 1 / 3),
    ],
)
def test_chance_is_one_of_the_orders_that_the_commands_can_make(
    n: int, moves: str, length: int, expected: float
) -> None:
    settings = {"n": n, "moves": moves, "length": length, "distinct_values": True}
    assert [one.chance for one in guesses(settings, 3)] == pytest.approx([expected] * 3)


def test_chance_is_what_guessing_gives() -> None:
    """The start is right as often as a guess, where orders are as likely as each other; values that repeat raise both."""
    distinct = guesses({"n": 3, "moves": "swaps", "length": 16, "distinct_values": True})
    assert np.mean([one.start for one in distinct]) == pytest.approx(1 / 3, abs=0.07)
    repeated = guesses({"n": 5, "moves": "full", "length": 8})
    assert np.mean([one.chance for one in repeated]) == pytest.approx(0.020, abs=0.004)  # of distinct digits, 0.008
