"""What is rendered can be read back, and what a model may write instead never raises."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.execution.program import Event, Frame, Program, Trace, Value
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.parse import Piece, ReadFrame, parse, restore
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["<|frame_sep|>", "<|action_sep|>", '"', "\\", "}", '{"a": "1"}', "'", "\n", "\ud800", "é", "<|end_of_text|>"]
    ),
)
values = st.builds(Value, texts.map(repr), st.sampled_from(["str", "object", "list"])).filter(lambda v: v.text != "..")
shown = st.dictionaries(texts, values, max_size=4)
lines = texts.map(lambda text: text.replace("\n", " ") + "\n")
frames = st.one_of(
    st.builds(Frame, st.sampled_from([Event.CALL, Event.LINE]), lines, shown, st.none()),
    st.builds(Frame, st.sampled_from([Event.RETURN, Event.EXCEPTION]), lines, st.none(), values),
)
traces = st.builds(lambda code, found: Trace(Program(code), found), texts, st.lists(frames, min_size=1, max_size=8))


def as_read(frame: Frame) -> ReadFrame:
    locals = None if frame.locals is None else {name: value.text for name, value in frame.locals.items()}
    return ReadFrame(frame.event, frame.source, locals, None if frame.value is None else frame.value.text)


def written(trace: Trace, config: RevealConfig, strings: str = "plain") -> list[Piece]:
    return [span.piece for span in render(trace, "cwm", config, strings=strings) if span.role is not Role.CONTEXT]


@given(traces, st.sampled_from(["full", "diff"]))
def test_what_is_rendered_is_read_back(trace: Trace, show: str) -> None:
    read = parse(written(trace, RevealConfig(locals=show)))
    assert read.valid
    # The seeded first frame is part of the context; a diff refers to it.
    first = as_read(trace.frames[0])
    frames = restore([first, *read.frames]) if show == "diff" else [first, *read.frames]
    assert frames == [as_read(frame) for frame in trace.frames]


@given(traces, st.sampled_from(["spaced", "list", "indexed"]), st.sampled_from([1, 3, float("inf")]))
def test_every_encoding_and_spacing_is_valid_and_keeps_events_and_lines(
    trace: Trace, strings: str, every: float
) -> None:
    literal = all(
        v.text.startswith(("'", '"')) for f in trace.frames for v in [*(f.locals or {}).values(), f.value] if v
    )
    if not literal:
        return
    read = parse(written(trace, RevealConfig(spacing=every), strings))
    assert read.valid
    assert [(f.event, f.source) for f in read.frames] == [(f.event, f.source) for f in trace.frames[1:]]


pieces = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from(list(Special)), st.sampled_from(["{", "{}", '""', "[1]"]))
)


@given(pieces)
def test_no_output_raises(output: list[Piece]) -> None:
    read = parse(output)
    assert read.valid == (read.ended and not read.problem)


@given(traces, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_no_damage_raises_and_the_frames_before_it_are_kept(trace: Trace, random: random.Random) -> None:
    good = written(trace, RevealConfig())
    at = random.randrange(len(good))
    damaged = good[:at] + [random.choice([*Special, "x", ""])] + good[at + random.randrange(3) :]
    whole = sum(piece is Special.FRAME_SEP for piece in good[:at])
    assert parse(damaged).frames[:whole] == parse(good).frames[:whole]


def test_problems_have_names() -> None:
    line, action, end = Special.LINE_SEP, Special.ACTION_SEP, Special.FRAME_SEP
    for output, says in (
        ([line, "{}", action, "x\n", end], ""),
        ([line, "{", action, "x\n", end], "not JSON"),
        ([line, "[]", action, "x\n", end], "not a JSON object"),
        ([line, '{"a": 1}', action, "x\n", end], "not a string"),
        ([line, '{"a": "1", "a": "2"}', action, "x\n", end], "given twice"),
        ([line, "{}", end], "without a source line"),
        (["x", end], "does not start with an event"),
        ([Special.RETURN_SEP, action, "x\n", end], "without a value"),
        ([Special.RETURN_SEP, "{}", action, "x\n", Special.ARG_SEP, '"1"', end], "with locals"),
        ([line, action, "x\n", Special.ARG_SEP, '"1"', end], "with a value"),
        ([line, action, "x\n", action, end], "wrong place"),
        ([line, action, "x\n"], "without its end"),
        ([line, action, "x\n", end, Special.END_OF_TEXT, "x"], "after the end"),
        ([line, "[" * 100_000, action, "x\n", end], "not JSON"),
    ):
        read = parse(output)
        assert says in read.problem
        assert bool(says) == bool(read.problem)
