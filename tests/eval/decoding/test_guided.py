"""Tokens of a trace that agrees with its own states: no true one is refused, no other is certain; what is new is left to the writer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import ControlFlow
from remedy.eval.decoding.guided import GuidedGrammar, GuidedWalk
from remedy.eval.decoding.protocol import Place
from remedy.eval.generators import LoopGenerator, requests
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import ConfigError
from tests.eval.control_flow.plain_programs import Writer
from tests.eval.control_flow.test_contradiction import LOOP
from tests.eval.decoding.test_control_flow import (
    BPE,
    CHARACTERS,
    DATA,
    SPLIT,
    STRAIGHT,
    TASK,
    certain_run,
    follow,
    share,
    written,
)
from tests.eval.held import CONSTRAINED, STRINGS, Prepared, assert_alike, assert_held, condition, never_masked
from tests.eval.scripted import drafting


def start(example: Example, tokenizer: TraceTokenizer, data: DataConfig, exceptions: Any = "caught") -> GuidedWalk:
    flow = ControlFlow(example.trace.program)
    return GuidedGrammar(flow, tokenizer, data.format, data.reveal).start(exceptions)


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARACTERS], ids=["bytes", "split", "characters"])
@pytest.mark.parametrize("locals", ["full", "diff"])
def test_no_true_token_is_refused(tokenizer: TraceTokenizer, locals: str) -> None:
    data = DataConfig.model_validate({**DATA.model_dump(), "reveal": {"locals": locals}})
    for number, example in enumerate(examples(data, "test", range(8))):
        exceptions = "caught" if number % 2 else "all"
        assert share(follow(start(example, tokenizer, data, exceptions), tokenizer.encode(example.spans))) > 0.4


@pytest.mark.parametrize("moves", ["swaps", "full"])
def test_on_straight_line_programs_only_new_values_are_left(moves: str) -> None:
    data = DataConfig.model_validate({**STRAIGHT, "task": {**TASK, "moves": moves}, "reveal": {"locals": "diff"}})
    for example in examples(data, "test", range(4)):
        found = follow(start(example, CHARACTERS, data), CHARACTERS.encode(example.spans))
        for role in (Role.EVENT, Role.ACTION, Role.STRUCTURE):
            certain, total = found[role]
            assert certain >= total - 2  # the separator after a value that is written
        assert share(found) > 0.8


def at(text: str, locals: Any = "diff") -> GuidedWalk:
    """The place after the first tokens of the true trace that spell this, one for each character."""
    reveal = RevealConfig(locals=locals)
    place = GuidedGrammar(ControlFlow(LOOP), CHARACTERS, reveal=reveal).start("caught")
    tokens = [token for token, _ in written(CHARACTERS.encode(render(trace(LOOP), config=reveal).spans))]
    ends = next(n for n in range(len(tokens) + 1) if CHARACTERS.decode(tokens[:n]).endswith(text))
    for token in tokens[:ends]:
        after = place.after(token)
        assert after is not None
        place = after
    return place


def wrote(place: GuidedWalk, text: str) -> GuidedWalk:
    for token in CHARACTERS.string_ids(text):
        after = place.after(token)
        assert after is not None, (text, token)
        place = after
    return place


def test_it_is_certain_up_to_a_new_value_and_after_it() -> None:
    place = at('"i": "')
    assert not certain_run(place)
    assert place.allowed().closing == CHARACTERS.special_ids[Special.ACTION_SEP]
    place = wrote(place, "1")
    assert not certain_run(place)
    certain = CHARACTERS.decode(certain_run(wrote(place, '"')))
    assert certain.startswith("}<|action_sep|>        if i > 1:\n<|frame_sep|><|line_sep|>")
    assert '"i": ".."}<|action_sep|>            y = \'b\'\n<|frame_sep|><|line_sep|>' in certain
    assert certain.endswith('"y": "')


def test_the_writers_own_value_decides_whatever_is_true() -> None:
    certain = CHARACTERS.decode(certain_run(wrote(at('"i": "'), '5"')))
    assert "y = 'aa'" in certain
    assert "y = 'b'" not in certain


@pytest.mark.parametrize("value", ["nan", "[1", "__import__('os')", "x" * 300])
def test_a_value_that_is_no_literal_leaves_both_ways(value: str) -> None:
    certain = CHARACTERS.decode(certain_run(wrote(at('"i": "'), value + '"')))
    assert certain.endswith("y = '")  # both begin so


VALUES = [
    "1", "0", "-5", "[]", "[1, 2]", "{}", "{'a': 1}", "'x'", "None", "True", "(1,)", "nan", "<f>", "..", "[[1], [1]]", "1e400",
    "{1, 2}", "set()", "frozenset({1})", "range(0, 3)", "<function grow>", "<built-in function len>", "<class 'int'>", "1j",
    "<module 'math'>", "b'a'", "[...]", "''", "9" * 400, "(((", "{[]:1}", "{'a': 1, 'a': 2}", "Counter()", "1 2", "", '\\"', "\\n",
]  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.sampled_from(["full", "diff"]), st.sampled_from(["all", "caught"]))
def test_whatever_a_writer_writes_it_can_go_on(number: int, locals: Any, exceptions: Any) -> None:
    drawn = random.Random(number)
    flow = ControlFlow(Writer(number).program())
    place = GuidedGrammar(flow, CHARACTERS, reveal=RevealConfig(locals=locals)).start(exceptions)
    for _ in range(150):
        if place.done:
            break
        allowed = place.allowed()
        assert allowed.ids
        tokens = [drawn.choice(sorted(allowed.ids))]
        if allowed.text and drawn.random() < 0.9:
            tokens = CHARACTERS.string_ids(drawn.choice(VALUES) + drawn.choice(['"', '"', '"', '"', '"', ""]))
        for token in tokens:
            after = place.after(token)
            if after is None:
                assert place.allowed().certain is not None
                break
            place = after


def guided(made: Prepared) -> list[Place]:
    """Where traces begin that are held to their own states."""
    return [start(one, made.tokenizer, made.data, "caught" if one.returns else "all") for one in made.examples]


@pytest.mark.parametrize("locals", ["full", "diff"])
def test_a_decoder_that_writes_the_truth_is_never_masked_and_asks_less(locals: str) -> None:
    data = {"task": {"kind": "composition", "depth": 2}, "reveal": {"locals": locals}}
    made = Prepared(data, 2)
    total, asked = never_masked(made, guided(made))
    assert asked < 0.5 * total
    assert asked < 0.6 * never_masked(made, made.starts)[1]


def test_a_decoder_with_guesses_writes_what_the_plain_loop_writes() -> None:
    made = Prepared({**STRINGS, "reveal": {"locals": "diff"}}, 1)
    writing = CONSTRAINED._replace(max_new_tokens=60)
    for seed, rate in enumerate([0.05, 1.0]):
        reader = made.reader(made.erring(seed, rate))
        expected = LoopGenerator(reader, CHARACTERS).generate(requests(made.truths, guided(made)), writing)
        found = drafting(reader, CHARACTERS, 2).generate(requests(made.truths, guided(made)), writing)
        assert_alike(found, expected)
        for one, begin in zip(expected, guided(made)):
            assert_held(one.runs[0], begin, CHARACTERS, 60)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"reveal": {"spacing": 2}}, "forcing guided: reveal.spacing: lines are evaluated on states"),
        ({"reveal": {"locals": "one_in_turn"}}, "forcing guided: reveal.locals"),
        ({"string_encoding": "spaced"}, "forcing guided: string_encoding: .*; use plain"),
        ({"reveal": {"max_tokens": 500}}, "forcing guided: reveal.max_tokens: may step over calls"),
    ],
)
def test_as_a_forcing_it_refuses_states_that_do_not_show_all(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        condition({**STRINGS, **data}, "guided")
