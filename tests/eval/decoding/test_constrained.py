"""Decoding under control flow: no event or line is written that the program does not allow; certain tokens are fed, without a truth."""

import random
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remedy.data_gen.roles import Role
from remedy.eval.decoding.protocol import ConstraintState
from remedy.eval.generators.base import make_requests
from remedy.eval.generators.loop import LoopGenerator
from remedy.models.chunks import Kind
from remedy.models.tokenizer import Encoded
from tests.eval.constrained_runs import CHARACTERS, CONSTRAINED, Prepared, assert_alike, assert_held
from tests.eval.scripted import MEMORIES, drafting


@pytest.mark.parametrize("kind", Kind)
def test_whatever_a_model_writes_is_what_the_plain_loop_writes(loops: Prepared, kind: Kind) -> None:
    draws = random.Random(str(kind))
    for seed in range(6):
        options = CONSTRAINED._replace(max_new_tokens=draws.choice([3, 60, 250]), memory=draws.choice(MEMORIES))
        rate = draws.choice([0.0, 0.02, 0.2, 1.0])
        reader = loops.reader(loops.erring(seed, rate, draws.choice([1, 2, 5])), kind)
        reader.limit = draws.choice([None, max(len(truth.ids) for truth in loops.truths) + 3])
        expected = LoopGenerator(reader, CHARACTERS).generate(make_requests(loops.truths, loops.starts), options)
        found = drafting(reader, CHARACTERS, draws.choice([1, 3])).generate(
            make_requests(loops.truths, loops.starts), options
        )
        assert_alike(found, expected)
        for one, start in zip(expected, loops.starts):
            (run,) = one.runs
            assert_held(run, start, CHARACTERS, options.max_new_tokens)


def test_a_model_that_writes_the_truth_is_never_masked(loops: Prepared) -> None:
    for truth, start in zip(loops.truths, loops.starts):
        reader = loops.reader(lambda read, ids=truth.ids: (*ids, 0)[len(read)])
        (written,) = drafting(reader, CHARACTERS, 1).generate(make_requests([truth], [start]), CONSTRAINED)
        (run,) = written.runs
        assert (run.ids, run.complete, reader.calls) == (list(truth.ids[run.start :]), True, 1)
        assert not any(origin.changed for origin in run.origins)


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
            for one in made.generate(make_requests(truths, loops.starts), CONSTRAINED._replace(max_new_tokens=300))
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
        make_requests([truth], [start]), CONSTRAINED._replace(max_new_tokens=300)
    )
    (run,) = written.runs
    place: ConstraintState | None = start
    masked = 0
    for at, (token, logprob, origin) in enumerate(zip(run.ids, run.logprobs, run.origins)):
        assert place is not None
        chances = reader.logits([*truth.ids[: run.start], *run.ids[:at]]).softmax(-1)
        if origin.choices:
            masked += 1
            ids = sorted(place.allowed().ids)
            assert token == ids[int(chances[ids].argmax())]
            assert origin.cut == pytest.approx(1 - float(chances[ids].sum()), abs=1e-5)
            assert origin.changed == (int(chances.argmax()) != token)
            assert logprob == pytest.approx(float(chances[token].log()), abs=1e-4)
        place = place.after(token)
    assert masked


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9), st.integers(1, 120))
def test_a_model_that_writes_anything_stays_within_the_program(loops: Prepared, seed: int, most: int) -> None:
    def anything(read: list[int]) -> int:
        return random.Random(zlib.crc32(repr((seed, len(read), read[-2:])).encode())).randrange(CHARACTERS.vocab_size)

    reader = loops.reader(anything)
    options = CONSTRAINED._replace(max_new_tokens=most)
    found = drafting(reader, CHARACTERS, 2).generate(make_requests(loops.truths, loops.starts), options)
    for one, start in zip(found, loops.starts):
        assert_held(one.runs[0], start, CHARACTERS, most)
