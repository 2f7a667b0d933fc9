"""Decoding under control flow: no event or line is written that the program does not allow; certain tokens are fed, without a truth."""

import random
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.roles import Role, Special
from remedy.eval.decoding.protocol import Place, continued
from remedy.eval.generators import LocalGenerator, LoopGenerator, requests
from remedy.models.chunks import Kind
from remedy.models.mixers import MIXERS
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded
from tests.eval.decoding.test_decoding import small_model
from tests.eval.held import (
    CHARACTERS,
    CONSTRAINED,
    RAISING,
    S3,
    Prepared,
    assert_alike,
    assert_held,
    never_masked,
    programs,
)
from tests.eval.scripted import MEMORIES, drafting
from tests.tiny_models import tiny_model


@pytest.fixture(scope="module")
def permutations() -> Prepared:
    return Prepared(S3, 5)


@pytest.mark.parametrize("kind", Kind)
def test_whatever_a_model_writes_is_what_the_plain_loop_writes(loops: Prepared, kind: Kind) -> None:
    draws = random.Random(str(kind))
    for seed in range(6):
        writing = CONSTRAINED._replace(max_new_tokens=draws.choice([3, 60, 250]), memory=draws.choice(MEMORIES))
        rate = draws.choice([0.0, 0.02, 0.2, 1.0])
        reader = loops.reader(loops.erring(seed, rate, draws.choice([1, 2, 5])), kind)
        reader.limit = draws.choice([None, max(len(truth.ids) for truth in loops.truths) + 3])
        expected = LoopGenerator(reader, CHARACTERS).generate(requests(loops.truths, loops.starts), writing)
        found = drafting(reader, CHARACTERS, draws.choice([1, 3])).generate(
            requests(loops.truths, loops.starts), writing
        )
        assert_alike(found, expected)
        for one, start in zip(expected, loops.starts):
            (run,) = one.runs
            assert_held(run, start, CHARACTERS, writing.max_new_tokens)


@pytest.mark.parametrize(
    ("format", "reveal"),
    [("cwm", {}), ("cwm_unseeded", {"spacing": 3}), ("cwm_numbered", {"locals": "diff"}), ("cwm_numbers", {})],
    ids=["cwm", "cwm_unseeded", "cwm_numbered", "cwm_numbers"],
)
def test_a_model_that_writes_the_truth_is_never_masked(loops: Prepared, format: str, reveal: dict[str, Any]) -> None:
    made = Prepared({**loops.data.model_dump(), "format": format, "reveal": reveal}, 2, split="all")
    assert all(example.returns for example in made.examples)
    never_masked(made, made.starts)


def test_programs_that_raise_are_no_exception() -> None:
    """Where the data do not say that a program returns, exceptions may be raised that nothing catches."""
    made = Prepared(RAISING, 1, split="all")
    assert any(example.trace.raised for example in made.examples)
    assert not any(example.returns for example in made.examples)
    never_masked(made, made.starts)


def _prompt(truth: Encoded) -> Encoded:
    """The same without what is asked for."""
    context = list(truth.roles).count(int(Role.CONTEXT))
    return Encoded(*(list(part[:context]) for part in truth))


@pytest.mark.parametrize("generator", ["loop", "local"])
def test_the_truth_changes_nothing(loops: Prepared, generator: str) -> None:
    reader = loops.reader(loops.erring(3, 0.05))

    def written(truths: list[Encoded]) -> Any:
        made: Any = LoopGenerator(reader, CHARACTERS) if generator == "loop" else drafting(reader, CHARACTERS, 3)
        return [
            one.runs[0].ids
            for one in made.generate(requests(truths, loops.starts), CONSTRAINED._replace(max_new_tokens=300))
        ]

    expected = written(loops.truths)
    assert written([_prompt(truth) for truth in loops.truths]) == expected
    context = int(Role.CONTEXT)
    tails = [[part[list(other.roles).count(context) :] for part in other] for other in reversed(loops.truths)]
    mixed = [Encoded(*([*a, *b] for a, b in zip(_prompt(one), tail))) for one, tail in zip(loops.truths, tails)]
    assert written(mixed) == expected


def test_choices_are_the_likeliest_of_what_is_allowed_and_what_was_cut_is_said(loops: Prepared) -> None:
    """Against the softmax of what a model says after everything that was written before."""
    reader = loops.reader(loops.erring(1, 0.3))
    truth, start = loops.truths[0], loops.starts[0]
    (written,) = LoopGenerator(reader, CHARACTERS).generate(
        requests([truth], [start]), CONSTRAINED._replace(max_new_tokens=300)
    )
    (run,) = written.runs
    place: Place | None = start
    masked = 0
    for at, (token, logprob, held) in enumerate(zip(run.ids, run.logprobs, run.held)):
        assert place is not None
        chances = reader.logits([*truth.ids[: run.start], *run.ids[:at]]).softmax(-1)
        if held.choices:
            masked += 1
            ids = sorted(place.allowed().ids)
            assert token == ids[int(chances[ids].argmax())]
            assert held.cut == pytest.approx(1 - float(chances[ids].sum()), abs=1e-5)
            assert held.changed == (int(chances.argmax()) != token)
            assert logprob == pytest.approx(float(chances[token].log()), abs=1e-4)
        place = place.after(token)
    assert masked


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.integers(1, 120))
def test_a_model_that_writes_anything_stays_within_the_program(loops: Prepared, seed: int, most: int) -> None:
    def anything(read: list[int]) -> int:
        return random.Random(zlib.crc32(repr((seed, len(read), read[-2:])).encode())).randrange(CHARACTERS.vocab_size)

    reader = loops.reader(anything)
    writing = CONSTRAINED._replace(max_new_tokens=most)
    found = drafting(reader, CHARACTERS, 2).generate(requests(loops.truths, loops.starts), writing)
    for one, start in zip(found, loops.starts):
        assert_held(one.runs[0], start, CHARACTERS, most)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_guess_goes_on_as_the_program_allows(loops: Prepared, data: st.DataObject) -> None:
    """However it is wrong: nothing that is refused is guessed, and of what is right nothing is lost."""
    number = data.draw(st.integers(0, 1))
    truth, place = loops.truths[number], loops.starts[number]
    true = list(truth.ids[list(truth.roles).count(int(Role.CONTEXT)) :])
    known, most = data.draw(st.integers(0, len(true) - 1)), data.draw(st.integers(1, 80))
    for token in true[:known]:
        after = place.after(token)
        assert after is not None
        place = after
    right = data.draw(st.integers(0, 60))
    wrong = data.draw(st.lists(st.integers(0, CHARACTERS.vocab_size - 1), max_size=10))
    found = continued(place, [*true[known : known + right], *wrong], most)
    assert len(found) <= most
    assert found[: min(right, most)] == true[known : known + right][:most]
    for token in found:
        after = place.after(token)
        assert after is not None
        place = after


def test_a_loop_without_an_end_is_ended(tmp_path: Path) -> None:
    data = programs(
        tmp_path, {"code": "def f(n):\n    while n < 9:\n        n = n\n    return n\n", "input": "9", "output": "9"}
    )
    made = Prepared(data, 1, split="all")
    (blank,), special = CHARACTERS.string_ids(" "), CHARACTERS.special_ids[Special.ACTION_SEP]
    reader = made.reader(lambda read: blank if read[-1] == blank else special)
    (written,) = drafting(reader, CHARACTERS, 1).generate(
        requests(made.truths, made.starts), CONSTRAINED._replace(max_new_tokens=50)
    )
    assert not written.runs[0].complete
    assert len(written.runs[0].ids) == 50 > written.runs[0].asked


@torch.no_grad()
@pytest.mark.parametrize(("name", "batch"), [("attention", 3), ("gated_deltanet", 1), ("gemma3_text", 1), ("rwkv", 3)])
def test_models_write_what_the_plain_loop_writes(permutations: Prepared, name: str, batch: int) -> None:
    """One of each kind of cache."""
    model = small_model(name, CHARACTERS) if name in MIXERS else tiny_model(name, CHARACTERS.vocab_size)
    generator = LocalGenerator(ModelReader(model), CHARACTERS, batch)
    fits = [
        pair
        for pair in zip(permutations.truths, permutations.starts)
        if generator.limit is None or len(pair[0].ids) <= generator.limit
    ][:3]
    truths, starts = [truth for truth, _ in fits], [start for _, start in fits]
    for memory in MEMORIES[1::2]:
        writing = CONSTRAINED._replace(max_new_tokens=20, memory=memory)
        expected = LoopGenerator(generator.reader, CHARACTERS).generate(requests(truths, starts), writing)
        assert_alike(generator.generate(requests(truths, starts), writing), expected)
