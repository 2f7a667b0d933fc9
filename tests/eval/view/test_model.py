"""What a model wrote beside the truth: which frame its tokens belong to, and which of them are wrong."""

import math

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.view.model import Block, Run, Token, side_by_side, tokens_of
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

CWM = DataConfig.model_validate({"task": {"kind": "composition", "family": "strings", "depth": 1}})
CHARS = build_tokenizer(TOKENIZERS["chars"](kind="chars"), CWM)


def truth_of(data: DataConfig, tokenizer: TraceTokenizer) -> list[Token]:
    [(_, encoded)] = encoded_examples(data, tokenizer, "test", [0])
    return tokens_of(tokenizer, encoded, frozenset(Role))


def run(start: int, stop: int, ids: list[int], frames: list[int], tokenizer: TraceTokenizer = CHARS) -> list[Run]:
    tokens = [
        Token(id, tokenizer.decode([id]), Role.STATE, frame, special=tokenizer.is_special(id), logprob=-0.5)
        for id, frame in zip(ids, frames, strict=True)
    ]
    return [Run(start, stop, tokens)]


def free(truth: list[Token], ids: list[int], tokenizer: TraceTokenizer = CHARS) -> list[Run]:
    """A trace that was written freely; a frame ends with its separator."""
    own = [token for token in truth if token.role is not Role.CONTEXT]
    numbers, frames, place = list(dict.fromkeys(token.frame for token in own)), [], 0
    for id in ids:
        frames.append(numbers[place] if place < len(numbers) else numbers[-1] + 1 + place - len(numbers))
        place += tokenizer.decode([id]) == "<|frame_sep|>"
    return run(len(truth) - len(own), len(truth), ids, frames, tokenizer)


def after_context(truth: list[Token]) -> list[int]:
    return [token.id for token in truth if token.role is not Role.CONTEXT]


def blocks(truth: list[Token], runs: list[Run]) -> tuple[Block, ...]:
    return side_by_side(truth, runs)


def test_a_perfect_trace_is_the_truth_twice() -> None:
    truth = truth_of(CWM, CHARS)
    found = blocks(truth, free(truth, after_context(truth)))
    assert found[0].written is None
    for block in found[1:]:
        assert block.written is not None
        assert tuple(token._replace(logprob=None) for token in block.written) == block.tokens


def test_a_longer_value_shifts_nothing_but_itself() -> None:
    truth = truth_of(CWM, CHARS)
    ids = after_context(truth)
    shift = len(truth) - len(ids)
    at = next(place for place, token in enumerate(truth) if token.role is Role.VALUE) + 2 - shift
    number = truth[at + shift].frame
    extra = CHARS.backend.text_ids("zz")
    found = blocks(truth, free(truth, ids[:at] + extra + ids[at:]))
    for block in found[1:]:
        assert block.written is not None
        wrong = [token for token in block.written if token.wrong]
        assert [token.text for token in wrong] == (["z", "z"] if block.frame == number else [])
        assert {token.role for token in wrong} <= {Role.VALUE}


def test_an_unknown_probability_is_said_to_be_one() -> None:
    """Also of a model here: after true tokens, a right text in other tokens has none."""
    token = Token(0, "a", Role.STATE, 0, logprob=-0.5)
    block = Block(0, "line", (token, token._replace(logprob=math.nan)))
    assert block.note.startswith("probability unknown: a server chose, or the text was cut into other tokens, least ")
    assert block.probability is not None
    assert math.isnan(block.probability)
