"""Scores after true tokens: a state or value is right by its own tokens, whatever the model would have written around it."""

import random
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.kinds import kinds
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import TEACHER_FORCED
from remedy.eval.generators.base import predictions
from remedy.eval.records.schema import Score
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.tiny_models import tokenizer_for

STRINGS = {"kind": "composition", "depth": 2, "functions": ["mirror_str", "repeat_str", "remove_vowels"]}
SWAPS = {"kind": "permutation", "n": 3, "moves": "swaps", "length": [3, 6]}
DATA = {
    "cwm": {"task": STRINGS},
    "cwm, diff": {"task": STRINGS, "reveal": {"locals": "diff"}},
    "cwm_numbers": {"task": SWAPS, "format": "cwm_numbers"},
    "repl": {"task": SWAPS, "format": "repl"},
    "symbolic": {"task": {**SWAPS, "distinct_values": True}, "format": "symbolic"},
    "symbolic, diff": {"task": {**SWAPS, "distinct_values": True}, "format": "symbolic", "reveal": {"locals": "diff"}},
}


def scored(data: DataConfig, tokenizer: TraceTokenizer, example: Example, truth: Encoded, run: Generated) -> Score:
    score = score_tokens if FORMATS[data.format].one_token else score_frames
    return score(DecodedExample(example, truth, [run], TEACHER_FORCED, data), tokenizer)


@pytest.mark.parametrize("name", DATA)
def test_states_and_values_are_counted_by_their_tokens_beside_wrong_separators(name: str) -> None:
    data = DataConfig.model_validate(DATA[name])
    tokenizer, rng = tokenizer_for(data), random.Random(name)
    words = [token for token in range(tokenizer.vocab_size) if not tokenizer.is_special(token)]
    outcomes = set()
    for example in examples(data, "test", range(4)):
        truth = tokenizer.encode(example.spans)
        [run] = predictions(truth, frozenset(Role) - {Role.CONTEXT}, truth.ids, [-1.0] * len(truth.ids))
        ids, rate = list(run.ids), 5 / sum(role in (Role.STATE, Role.VALUE) for role in truth.roles)
        spoilt = set()
        for at, role in enumerate(truth.roles[run.start :]):
            part = (role, truth.frames[run.start + at])
            if role in (Role.STRUCTURE, Role.EVENT):
                ids[at] = rng.choice([token for token in words if token != ids[at]])
            elif role in (Role.STATE, Role.VALUE) and tokenizer.decode([ids[at]]).isalnum() and rng.random() < rate:
                ids[at] = next(token for token in words if token != ids[at] and tokenizer.decode([token]).isalnum())
                spoilt.add(part)
        score = scored(data, tokenizer, example, truth, run._replace(ids=ids))
        of_kind = kinds(example.trace, example.frames, example.reveal)
        for role, share, count in ((Role.STATE, "state_exact", "states"), (Role.VALUE, "value_exact", "returns")):
            parts = {(role, f) for r, f in zip(truth.roles[run.start :], truth.frames[run.start :]) if r == role}
            counted: dict[str, Any] = dict(score)
            assert counted[count] == len(parts)
            outcomes |= {(role, part in spoilt) for part in parts}
            assert (counted[share] or 0) * len(parts) == pytest.approx(len(parts - spoilt))
        changed = {(Role.STATE, frame) for frame in of_kind["changed_states"]}
        assert score["changed_states_right"] == len(changed - spoilt)
        if not FORMATS[data.format].one_token:
            assert not score["valid_format"]
            assert score["first_error_role"] in ("structure", "event", "state", "value")
    assert {(Role.STATE, True), (Role.STATE, False)} <= outcomes


def test_other_tokens_of_the_same_meaning_are_right() -> None:
    """`..` in place of the value that was last shown, after true states."""
    data = DataConfig.model_validate(DATA["symbolic, diff"])
    tokenizer = tokenizer_for(data)
    [example] = examples(data, "test", range(1))
    truth = tokenizer.encode(example.spans)
    [run] = predictions(truth, frozenset(Role) - {Role.CONTEXT}, truth.ids, [-1.0] * len(truth.ids))
    ids = list(run.ids)
    [unchanged] = tokenizer.encode([span for span in example.spans if span.piece == ".."][:1]).ids
    shown: dict[int, int] = {}
    respelled = 0
    for at in range(1, len(ids)):
        if truth.roles[run.start + at] == Role.STATE:
            name, token = run.ids[at - 1], run.ids[at]
            if token == unchanged:
                ids[at] = shown[name]
                respelled += 1
            else:
                shown[name] = token
    assert respelled
    score = scored(data, tokenizer, example, truth, run._replace(ids=ids))
    assert score["state_exact"] == 1
    assert score["respelled"]
