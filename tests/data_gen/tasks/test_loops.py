"""Loop programs execute as many lines as was asked, no split has another's loop bodies, and no simple rule knows the answers."""

import ast
import itertools
import re
from collections import Counter
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Event
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.splits import ALL, SPLITS, split_of
from remedy.data_gen.tasks.loop_programs import loop_body_hash
from remedy.data_gen.tasks.loops import LoopsTask
from remedy.eval.diagnostics.programs import ProgramsDiagnostic

LOOPS = (ast.For, ast.While)
TASKS: list[dict[str, Any]] = [
    {"lines": (10, 40), "depth": 1},
    {"lines": (32, 300), "modulus": 32},
    {"lines": (64, 1024), "depth": (1, 3)},
    {
        "lines": (122, 500),
        "depth": 4,
        "modulus": 210,
    },  # the first factors without a divisor in common with it are 11 and 13
    {"lines": 997, "depth": 2, "modulus": 1000},
]


def nested(node: ast.AST) -> int:
    return isinstance(node, LOOPS) + max(map(nested, ast.iter_child_nodes(node)), default=0)


def loop_bodies(code: str) -> set[int]:
    """The hashes of the bodies of all loops."""
    lines = code.splitlines(keepends=True)
    loops = [node for node in ast.walk(ast.parse(code)) if isinstance(node, LOOPS)]
    return {loop_body_hash(dedent("".join(lines[loop.body[0].lineno - 1 : loop.end_lineno]))) for loop in loops}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TASKS), st.sampled_from([*SPLITS, ALL]), st.integers(0, 10**6), st.integers(0, 10**9))
def test_a_program_executes_the_lines_that_were_asked_for(
    given: dict[str, Any], split: str, seed: int, index: int
) -> None:
    task = LoopsTask(**given)
    one, again = (task.draw(split, indices, seed, False)[-1] for indices in ([index], [index + 1, index]))
    assert one == again
    traced = trace(one.program)
    assert sum(frame.event is Event.LINE for frame in traced.frames) == one.slices["lines"]
    low, high = given["lines"] if isinstance(given["lines"], tuple) else (given["lines"],) * 2
    assert low <= int(one.slices["lines"]) <= high
    values = [value.text for frame in traced.frames for value in (frame.locals or {}).values()]
    assert traced.result is not None
    assert (
        max(int(number) for text in (*values, traced.result.text) for number in re.findall(r"-?\d+", text))
        < task.modulus
    )
    assert not any("-" in text for text in values)
    functions = ast.parse(one.program.code).body
    assert (max(map(nested, functions)), len(functions) - 2) == (one.slices["depth"], one.slices["helpers"])


def test_a_long_program_executes_the_lines_that_were_asked_for() -> None:
    (one,) = LoopsTask(lines=16384).draw("test", [0], 0, False)
    assert sum(frame.event is Event.LINE for frame in trace(one.program).frames) == 16384


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(TASKS), st.integers(0, 10**6))
def test_no_two_splits_share_a_loop_body(given: dict[str, Any], seed: int) -> None:
    task = LoopsTask(**given)
    bodies = [
        set().union(*(loop_bodies(one.program.code) for one in task.draw(split, range(15), seed, False)))
        for split in SPLITS
    ]
    assert all(len(hashes) > 10 for hashes in bodies)
    assert [{split_of(one) for one in hashes} for hashes in bodies] == [{split} for split in SPLITS]


def test_a_loop_body_is_the_same_whatever_its_variables_are_called() -> None:
    assert loop_body_hash("x = (x + 3 * y) % 97\ni += 1") == loop_body_hash("a = (a + 3 * b) % 97\nj += 1")
    assert loop_body_hash("x = (x + 3 * y) % 97") != loop_body_hash("x = (x + 3 * x) % 97")
    assert {split_of(loop_body_hash(f"x = (x + {n}) % 97")) for n in range(99)} == {*SPLITS}


def test_no_simple_rule_knows_the_answers() -> None:
    data = DataConfig.model_validate({"task": {"kind": "loops", "lines": [32, 64]}})
    drawn = examples(data, "test", range(400))
    answers = Counter(one.answer for one in drawn)
    assert len(answers) > 90
    guesses = [data.task.guesses(one.trace, one.answer) for one in drawn]
    assert {guess.chance for guess in guesses} == {1 / 97}
    last_literal = sum(re.findall(r"\d+", one.program)[-1] == one.answer for one in drawn)
    copied = sum(bool(guess.start) for guess in guesses)
    assert max(answers.most_common(1)[0][1], last_literal, copied) < 0.05 * len(drawn)


def test_numbers_of_lines_are_log_uniform_and_each_depth_that_fits_is_as_likely() -> None:
    drawn = LoopsTask(lines=(64, 1023), depth=(1, 2)).draw("train", range(400), 0, False)
    octaves = Counter(int(one.slices["lines"]).bit_length() for one in drawn)
    assert len(octaves) == 4
    assert min(octaves.values()) > 70
    depths = Counter((int(one.slices["lines"]) > 4 * 97, one.slices["depth"]) for one in drawn)
    assert depths[True, 1] == 0
    assert abs(depths[False, 1] - depths[False, 2]) < 60


def test_training_never_has_what_is_held_out() -> None:
    task = LoopsTask(lines=(32, 128), depth=(1, 2), held_out_depths=(2,), held_out_lines=((50, 60), (900, 950)))
    assert task.held_out() == {
        ("held_out_lines", (50, 60)): "",
        ("held_out_lines", (900, 950)): "programs run 32 to 128 lines",
        ("held_out_depths", 2): "",
    }
    seen = [
        {(one.slices["depth"], 50 <= int(one.slices["lines"]) <= 60) for one in task.draw(split, range(100), 0, False)}
        for split in ("train", "test")
    ]
    assert seen == [{(1, False)}, set(itertools.product((1, 2), (False, True)))]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"depth": (2, 5)}, "depth must lie in 1..4"),
        ({"lines": 20, "depth": 2}, "lines must be 26 to 37636 with depth 2 and modulus 97"),
        ({"lines": (32, 16384), "depth": 1}, "lines must be 10 to 388"),
        ({"lines": (64, 32)}, "got"),
    ],
)
def test_what_no_program_can_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        LoopsTask(**given)


def test_an_evaluation_tells_numbers_of_lines_apart() -> None:
    sources = [LoopsTask(lines=lines) for lines in (64, (32, 128), 128)]
    diagnostic = ProgramsDiagnostic(sources=tuple(sources), forcing=("free",), answer_only=(False,))
    conditions = diagnostic.conditions(DataConfig(task=sources[0]), "test", sources[0])
    names = [condition.labels["benchmark"] for condition in conditions]
    assert names == ["loops (64 lines)", "loops (32 to 128 lines)", "loops (128 lines)"]
    assert len({condition.slug for condition in conditions}) == 3
