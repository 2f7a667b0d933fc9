"""What a model wrote beside the truth: which frame its tokens belong to, and which of them are wrong."""

import io

import pytest
from rich.console import Console

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.view.model import Block, Run, Token, View, beside, tokens_of
from remedy.eval.view.page import page
from remedy.eval.view.terminal import show_view
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

CWM = DataConfig.model_validate({"task": {"kind": "composition", "family": "strings", "depth": 1}})
SYMBOLIC = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 3}, "format": "symbolic"})
CHARS = build_tokenizer(TOKENIZERS["chars"](kind="chars"), CWM)
SYMBOLS = build_tokenizer(TOKENIZERS["symbols"](kind="symbols"), SYMBOLIC)


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
    return beside(truth, runs)


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


def test_frames_after_the_last_have_blocks_of_their_own() -> None:
    truth = truth_of(CWM, CHARS)
    ids = after_context(truth)
    again = [token.id for token in truth if token.frame == 1]
    found = blocks(truth, free(truth, ids[:-1] + again + again))
    assert [token.text for token in found[-2].tokens] == ["<|end_of_text|>"]
    assert found[-1].tokens == ()
    for block in found[-2:]:
        assert [token.id for token in block.written or ()] == again
        assert all(token.wrong for token in block.written or ())


def test_fed_tokens_are_grey_and_never_wrong() -> None:
    truth = truth_of(CWM, CHARS)
    places = [place for place, token in enumerate(truth) if token.role is Role.VALUE and token.frame == truth[-2].frame]
    start, stop = places[0], places[-1] + 1
    found = blocks(truth, run(start, stop, CHARS.backend.text_ids("'?'"), [truth[start].frame] * 3))
    written = [token for block in found for token in block.written or ()]
    assert "".join(token.text for token in written if token.supervised) == "'?'"
    assert not any(token.wrong for token in written if not token.supervised)


def test_one_token_formats_are_compared_by_place() -> None:
    truth = truth_of(SYMBOLIC, SYMBOLS)
    ids = after_context(truth)
    wrong_id = next(token.id for token in truth if token.role is Role.QUERY)
    at = next(place for place, token in enumerate(truth) if token.role is Role.STATE) - (len(truth) - len(ids))
    ids[at] = wrong_id
    found = beside(truth, free(truth, ids, SYMBOLS), by_place=True)
    wrong = [(token.id, token.role) for block in found for token in block.written or () if token.wrong]
    assert wrong == [(wrong_id, Role.STATE)]


@pytest.mark.parametrize("terminal", [False, True])
def test_both_are_shown_and_the_first_error_is_marked(terminal: bool) -> None:
    truth = truth_of(CWM, CHARS)
    ids = after_context(truth)
    ids[-3] = CHARS.backend.text_ids("~")[0]
    error = truth[-2].frame
    found = beside(truth, free(truth, ids), error, {error: ("it \x1b errs",)})
    view = View("Record 0", found, {}, "written")
    stream = io.StringIO()
    show_view(view, Console(file=stream, width=200, force_terminal=terminal, color_system="truecolor"))
    assert "written" in stream.getvalue()
    assert "least likely token" in stream.getvalue()
    assert "it \\x1b errs" in stream.getvalue()
    assert terminal or "✗~" in stream.getvalue()
    assert "not supervised" not in stream.getvalue()
    html = page(view)
    assert html.count('<tr class="error">') == 1
    assert " wrong" in html
