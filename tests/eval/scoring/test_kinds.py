"""Counts of right states by kind: the true trace has all of them, and "nothing changed" those that are unchanged, and no others."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.execution.program import Event, Frame
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.kinds import KINDS
from remedy.data_gen.traces.render import FORMATS, render
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.records.schema import Score
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.eval.scoring.tokens import score_tokens
from remedy.models.tokenizer import Encoded, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.settings import build
from tests.eval.constrained_runs import CHARACTERS
from tests.eval.scoring.truths import freely, start_of, true_runs

SWAPS = {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 6]}
NESTED = {"kind": "composition", "family": "lists", "depth": [1, 3]}


def nothing_changed(example: Example) -> Example:
    """The trace in which each state is the one that was last shown of its call."""
    shown = {frame.number for frame in example.frames if frame.locals is not None}
    calls: list[dict[str, Any]] = [dict(line.split(" = ") for line in example.trace.setup)]
    frames: list[Frame] = []
    types = {name: value for frame in example.trace.frames for name, value in (frame.locals or {}).items()}
    for number, frame in enumerate(example.trace.frames):
        if frame.event is Event.CALL:
            calls.append({})
        state = None
        if frame.locals is not None:
            state = {name: types[name]._replace(text=text) for name, text in calls[-1].items()}
        frames.append(replace(frame, locals=state))
        if number in shown and frame.locals is not None:
            calls[-1] = {name: value.text for name, value in frame.locals.items()}
        if frame.event is Event.RETURN:
            calls.pop()
    return replace(example, trace=replace(example.trace, frames=frames))


def scored(example: Example, truth: Encoded, written: Encoded, data: DataConfig, tokenizer: TraceTokenizer) -> Score:
    runs = freely(truth, list(written.ids[start_of(written) :]))
    score = score_tokens if FORMATS[data.format].one_token else score_frames
    return score(DecodedExample(example, truth, runs, fed_roles("free"), data), tokenizer)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([("cwm", NESTED), ("cwm_unseeded", SWAPS), ("repl", SWAPS), ("symbolic", SWAPS)]),
    st.integers(1, 3),
    st.integers(0, 30),
)
def test_nothing_changed_has_the_unchanged_states(kind: tuple[str, dict[str, Any]], spacing: int, index: int) -> None:
    form, task = kind
    data = build(DataConfig, {"task": task, "format": form, "reveal": {"spacing": spacing}}, "test")
    example = examples(data, "test", [index])[0]
    tokenizer = CHARACTERS
    if form == "symbolic":
        tokenizer = build_tokenizer(TOKENIZERS["symbols"].model_validate({"kind": "symbols"}), data)
    truth = tokenizer.encode(example.spans)
    by_rule = tokenizer.encode(render(nothing_changed(example).trace, form, data.reveal).spans)
    right, ruled = (dict(scored(example, truth, written, data, tokenizer)) for written in (truth, by_rule))
    assert right["states"] == sum(right[name] for name in KINDS[Role.STATE])
    for names in KINDS.values():
        for name in names:  # None: there is none to write
            assert right[name] == (right[f"{name}_right"] or 0) == ruled[name] >= (ruled[f"{name}_right"] or 0)
    assert {name: ruled[f"{name}_right"] for name in KINDS[Role.STATE]} == {
        "argument_states": 0,
        "unchanged_states": right["unchanged_states"],
        "changed_states": 0,
    }


@pytest.mark.parametrize(("forcing", "counted"), [("state_forced", False), ("action_forced", True)])
def test_what_is_fed_is_not_counted_as_right(forcing: str, counted: bool) -> None:
    data = build(DataConfig, {"task": SWAPS, "format": "cwm"}, "test")
    example = examples(data, "test", [0])[0]
    truth = CHARACTERS.encode(example.spans)
    score = dict(
        score_frames(DecodedExample(example, truth, true_runs(truth, forcing), fed_roles(forcing), data), CHARACTERS)
    )
    assert (score["changed_states_right"] == score["changed_states"]) is counted
    assert (score["changed_states_right"] is None) is not counted
    assert (score["lines_below_right"] is None) is counted
