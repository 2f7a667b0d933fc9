"""Scores of one-token formats: the final state is the answer, whatever else is written, and nothing written makes the scorer raise."""

import random
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Special
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.reading import generated_places
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import build
from tests.eval.scoring.truths import true_runs
from tests.tiny_models import tokenizer_for

FORCINGS: list[Any] = [
    "free",
    "action_forced",
    "teacher_forced",
    ("context", "structure"),
    ("context", "structure", "action"),
]
Made = tuple[DataConfig, TraceTokenizer, list[tuple[Example, Encoded]]]


@pytest.fixture(scope="module")
def made() -> Made:
    task = {"kind": "permutation", "n": 3, "moves": "swaps", "length": [2, 6], "distinct_values": True}
    data = build(DataConfig, {"task": task, "format": "symbolic", "reveal": {"spacing": 2}}, "test")
    tokenizer = tokenizer_for(data)
    return data, tokenizer, [(one, tokenizer.encode(one.spans)) for one in examples(data, "test", range(6))]


def scored(made: Made, place: int, runs: list[Generated], forcing: Any) -> dict[str, Any]:
    data, tokenizer, truths = made
    decoded = DecodedExample(*truths[place], runs, fed_roles(forcing), data)
    generated_places(decoded, tokenizer)
    return dict(score_tokens(decoded, tokenizer))


def test_separators_in_the_wrong_place_are_no_trace(made: Made) -> None:
    truth, special = made[2][0][1], made[1].special_ids
    (run,) = true_runs(truth, "free")

    def right(ids: list[int]) -> bool:
        return scored(made, 0, [run._replace(ids=ids, logprobs=[-1.0] * len(ids))], "free")["right"] is True

    assert right(run.ids)
    assert right(run.ids[:1] + run.ids)  # a detour that ends in the true state; `state_exact` says what it was
    for token in (Special.PAD, Special.FRAME_SEP, Special.BEGIN_OF_TEXT, Special.END_OF_TEXT):
        assert not right([special[token], *run.ids])
    assert not right(list(truth.ids))  # the context a second time
    assert not right(run.ids[:-1])
    assert not right([])


@pytest.mark.parametrize("forcing", FORCINGS)
def test_no_output_makes_the_scorer_raise(made: Made, forcing: Any) -> None:
    rng = random.Random(str(forcing))
    exact = forcing != "free"
    for place, (_, truth) in enumerate(made[2]):
        for _ in range(40):
            runs = []
            for run in true_runs(truth, forcing):
                ids = [rng.choice([token, rng.randrange(made[1].vocab_size)]) for token in run.ids]
                cut = 0 if forcing == "teacher_forced" else rng.choice([0, 0, rng.randrange(len(ids) + 1)])
                ids = ids[: len(ids) - cut] + ([] if exact or cut else rng.choice([[], ids]))
                runs.append(run._replace(ids=ids, logprobs=[-1.0] * len(ids), complete=rng.random() < 0.8))
            score = scored(made, place, runs, forcing)
            assert (score["right"] is None) == (forcing == "teacher_forced")
            assert score["right"] or score["failure"] or score["right"] is None
