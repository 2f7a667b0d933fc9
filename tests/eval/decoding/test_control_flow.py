"""Tokens under a program's control flow: no true one is refused, on straight-line programs no other event or line can be written."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import ControlFlow, ControlFlowError
from remedy.eval.decoding.control_flow import TokenWalk, TraceGrammar
from remedy.eval.decoding.forcings import ACTION_FORCED
from remedy.eval.decoding.protocol import ConstraintState
from remedy.models.tokenizer import Encoded, TraceTokenizer
from tests.data_gen.execution.random_programs import Writer
from tests.eval.constrained_runs import CHARACTERS
from tests.tiny_models import bpe

DATA = DataConfig.model_validate({"task": {"kind": "composition", "depth": [1, 3]}})
BPE, SPLIT = bpe(), bpe(string_tokenization="characters")
TASK: dict[str, Any] = {"kind": "permutation", "n": 5, "length": [8, 40]}
STRAIGHT = {"task": TASK, "format": "cwm"}


def certain_run(place: ConstraintState) -> list[int]:
    """The tokens that must come next, up to the first that need not, or to the end."""
    found: list[int] = []
    at: ConstraintState | None = place
    while at is not None and not at.done and (token := at.allowed().certain) is not None:
        found.append(token)
        at = at.after(token)
    return found


def drawn(data: dict[str, Any], count: int = 6) -> list[Example]:
    return list(examples(DataConfig.model_validate(data), "test", range(count)))


def start(example: Example, tokenizer: TraceTokenizer, data: DataConfig, exceptions: Any = "caught") -> TokenWalk:
    flow = ControlFlow(example.trace.program)
    return TraceGrammar(flow, tokenizer, data.format, data.reveal).start(exceptions)


def written(encoded: Encoded) -> list[tuple[int, int]]:
    """The tokens after the prompt, with their roles."""
    return [(token, role) for token, role in zip(encoded.ids, encoded.roles) if role != Role.CONTEXT]


def follow(place: TokenWalk, encoded: Encoded) -> dict[Role, tuple[int, int]]:
    """Follow the true tokens: by role how many were certain, and how many there were. Fails where one is refused, or another is."""
    tokens = written(encoded)
    found = dict.fromkeys(Role, (0, 0))
    known = 0
    for number, (token, role) in enumerate(tokens):
        if number >= known:
            run = certain_run(place)
            true = [one for one, _ in tokens[number : number + len(run)]]
            text = place.grammar.tokenizer.decode
            assert run == true, f"{text(run)} is not {text(true)}"
            known = number + len(run)
        certain, total = found[Role(role)]
        found[Role(role)] = certain + (number < known), total + 1
        after = place.after(token)
        assert after is not None, (number, token)
        place = after
    assert place.done
    return found


def share(found: dict[Role, tuple[int, int]]) -> float:
    return sum(certain for certain, _ in found.values()) / sum(total for _, total in found.values())


@pytest.mark.parametrize("tokenizer", [BPE, SPLIT, CHARACTERS], ids=["bytes", "split", "characters"])
@pytest.mark.parametrize(
    ("format", "changes"),
    [
        ("cwm", {}),
        ("cwm", {"reveal": {"locals": "diff"}}),
        ("cwm_unseeded", {"reveal": {"spacing": 4}}),
        ("cwm", {"reveal": {"spacing": 3, "locals": "one_in_turn"}}),
        ("cwm", {"reveal": {"spacing": math.inf, "locals": "diff"}}),
        ("cwm", {"reveal": {"spacing": 5, "at": 0.25}}),
        ("cwm_numbered", {"first_line": [95, 105]}),
        ("cwm_numbers", {"first_line": [95, 105]}),
    ],
    ids=str,
)
def test_no_true_token_is_refused(tokenizer: TraceTokenizer, format: str, changes: dict[str, Any]) -> None:
    data = DataConfig.model_validate({**DATA.model_dump(), "format": format, **changes})
    for number, example in enumerate(examples(data, "test", range(6))):
        follow(start(example, tokenizer, data, "caught" if number % 2 else "all"), tokenizer.encode(example.spans))


@pytest.mark.parametrize("spacing", [1, 3, math.inf])
def test_no_true_token_of_branches_loops_and_raises_is_refused_where_states_are_left_out(
    spacing: float, tmp_path: Path
) -> None:
    for number in range(10):
        (tmp_path / f"{number}.py").write_text(Writer(number).program().code)
    task = {"kind": "programs", "path": str(tmp_path), "tracer": {"isolation": "trusted"}}
    data = DataConfig.model_validate({"task": task, "reveal": {"spacing": spacing, "locals": "diff"}})
    certain = 0
    for number, example in enumerate(made for made in examples(data, "all", range(10)) if made.outcome == "ok"):
        exceptions = "caught" if number % 2 and not example.trace.raised else "all"
        found = follow(start(example, CHARACTERS, data, exceptions), CHARACTERS.encode(example.spans))
        certain += sum(count for count, _ in found.values())
    assert certain > 50


@pytest.mark.parametrize("spacing", [1, 4, math.inf])
@pytest.mark.parametrize("moves", ["swaps", "full"])
def test_on_straight_line_programs_whatever_is_written_of_states_the_rest_is_the_truth_that_action_forcing_feeds(
    moves: str, spacing: float
) -> None:
    """Though lines repeat, and nothing of the truth is known: not where states stand either, which the spacing says."""
    data = DataConfig.model_validate({**STRAIGHT, "task": {**TASK, "moves": moves}, "reveal": {"spacing": spacing}})
    nonsense = BPE.encode(drawn(STRAIGHT, 1)[0].spans).ids[3]
    for example in examples(data, "test", range(6)):
        encoded = BPE.encode(example.spans)
        place: TokenWalk | None = start(example, BPE, data)
        found: list[int] = []
        texts = 0
        while place is not None and not place.done:
            run = certain_run(place)
            if not run:  # a state or a value
                texts += 1
                closing = place.allowed().closing
                assert closing is not None
                run = [closing]
                place = place.after(nonsense)
            found += run
            for token in run:
                assert place is not None
                place = place.after(token)
        assert place is not None
        assert found == [token for token, role in written(encoded) if role in ACTION_FORCED]
        free = [role in (Role.STATE, Role.VALUE) for _, role in written(encoded)]
        assert texts == sum(now and not before for before, now in pairwise([False, *free]))


@pytest.mark.parametrize(
    ("format", "reveal", "message"),
    [
        ("repl", {}, "format: repl does not write events"),
        ("cwm", {"call_depth": 1}, "reveal.call_depth"),
        ("cwm", {"answer_only": True}, "reveal.answer_only"),
        ("cwm", {"frames": "shown", "spacing": 4}, "reveal.frames"),
        ("cwm", {"loops": 2}, "reveal.loops"),
    ],
)
def test_what_leaves_frames_or_events_out_is_refused(format: str, reveal: dict[str, Any], message: str) -> None:
    flow = ControlFlow(Program("def main():  # << START_OF_TRACE\n    pass\n"))
    with pytest.raises(ControlFlowError, match=message):
        TraceGrammar(flow, BPE, format, RevealConfig.model_validate(reveal))
