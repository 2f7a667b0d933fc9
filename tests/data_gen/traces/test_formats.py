"""What a format writes is read back as the written frames; what a model may write instead never raises."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.program import Event, Frame, Program, Trace, Value
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.frames import Rendered, WrittenFrame
from remedy.data_gen.traces.parse import Piece, ReadFrame, ReadTrace, restore
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.settings import ConfigError, build

ROOT = Path(__file__).resolve().parents[3]
TEXT_FORMATS = [name for name, format in FORMATS.items() if not format.one_token]

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["<|frame_sep|>", "<|action_sep|>", '"', "\\", "}", '{"a": "1"}', "'", "\n", "\ud800", "é", "<|end_of_text|>"]
    ),
)
strings = st.builds(Value, texts.map(repr), st.just("str"))
values = st.one_of(
    strings,
    st.builds(Value, st.lists(texts, max_size=3).map(repr), st.just("list")),
    st.builds(Value, texts.map(lambda text: f"<{text}>"), st.just("object")),
)
lines = st.one_of(
    texts.map(lambda text: text.replace("\n", " ") + "\n"), st.sampled_from(["print('a', a)\n", ">>> x\n", "a 2\n"])
)


numbers = st.integers(1, 99)


def frames_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[Frame]]:
    shown = st.dictionaries(names, values, max_size=4)
    one = st.one_of(
        st.builds(Frame, st.sampled_from([Event.CALL, Event.LINE]), numbers, lines, shown, st.none()),
        st.builds(Frame, st.sampled_from([Event.RETURN, Event.EXCEPTION]), numbers, lines, st.none(), values),
    )
    return st.lists(one, min_size=1, max_size=8)


names = st.sampled_from(["a", "b", "word", ".0", "é", "print"])
traces = st.builds(lambda code, found: Trace(Program(code), found), texts, frames_of(names))
any_names = st.builds(lambda code, found: Trace(Program(code), found), texts, frames_of(texts))
reveals = st.one_of(
    st.builds(
        RevealConfig,
        spacing=st.sampled_from([1, 2, 3, float("inf")]),
        locals=st.sampled_from(["full", "diff", "changes", "one_in_turn", "one_at_random"]),
        call_depth=st.sampled_from([None, 0, 1]),
        frames=st.sampled_from(["all", "shown"]),
        loops=st.sampled_from([None, 1]),
    ),
    st.just(RevealConfig(answer_only=True)),
)


def after_context(written: Rendered) -> list[Piece]:
    return [span.piece for span in written.spans if span.role is not Role.CONTEXT]


def cut(pieces: list[Piece], at: random.Random) -> Iterator[Piece]:
    """The pieces with their texts cut at random."""
    for piece in pieces:
        while isinstance(piece, str) and piece:
            size = at.randint(1, len(piece))
            yield piece[:size]
            piece = piece[size:]
        if isinstance(piece, Special):
            yield piece


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("format", TEXT_FORMATS)
@given(trace=traces, reveal=reveals, at=st.randoms(use_true_random=False))
def test_the_written_frames_are_read_back(
    format: str, encoding: str, trace: Trace, reveal: RevealConfig, at: random.Random
) -> None:
    has_answer = FORMATS[format].answers_only and trace.frames[-1].value is not None
    chosen = reveal if has_answer or not reveal.answer_only else RevealConfig()
    written = render(trace, format, chosen, string_encoding=encoding)
    read = FORMATS[format].read(cut(after_context(written), at), chosen.answer_only)
    assert read == ReadTrace(tuple(frame.as_read(encoding) for frame in written.frames), "", True)


@given(any_names, st.sampled_from(["full", "diff"]))
def test_a_diff_in_the_cwm_format_is_restored_to_all_values(trace: Trace, shown: str) -> None:
    written = render(trace, "cwm", RevealConfig(locals=shown))
    read = FORMATS["cwm"].read(after_context(written))
    # The seeded first frame is part of the context; a diff refers to it.
    whole = [WrittenFrame(n, f.event, f.source, f.locals, f.value).as_read() for n, f in enumerate(trace.frames)]
    assert read.valid
    assert restore([whole[0], *read.frames]) == whole


@pytest.mark.parametrize("format", TEXT_FORMATS)
@given(trace=traces, at=st.randoms(use_true_random=False))
def test_each_piece_belongs_to_the_frame_of_its_span(format: str, trace: Trace, at: random.Random) -> None:
    written = render(trace, format)
    place_of = {frame.number: place for place, frame in enumerate(written.frames)}
    place_of[len(trace.frames)] = len(written.frames)
    reader = FORMATS[format].reader()
    for span in written.spans:
        if span.role is Role.CONTEXT:
            continue
        for piece in cut([span.piece], at):
            reader.feed(piece)
            own_print = "print('a', a)\n" in (frame.source for frame in trace.frames)
            assert reader.frame_number == place_of[span.frame] or own_print


pieces = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(list(Special)),
        st.sampled_from(
            ["{", "{}", '""', "[1]", "\n", ">>> ", ">>> a = 1\n", ">>> print('a', a)\n", "a 2\n", "a \\x\n"]
        ),
    )
)


@pytest.mark.parametrize("answer_only", [False, True])
@pytest.mark.parametrize("format", TEXT_FORMATS)
@given(output=pieces)
def test_no_output_raises(format: str, answer_only: bool, output: list[Piece]) -> None:
    read = FORMATS[format].read(output, answer_only)
    assert read.valid == (read.ended and not read.problem)


@pytest.mark.parametrize("format", TEXT_FORMATS)
@given(trace=traces, at=st.randoms(use_true_random=False))
def test_no_damage_raises_and_the_frames_before_it_are_kept(format: str, trace: Trace, at: random.Random) -> None:
    good = list(cut(after_context(render(trace, format)), at))
    here = at.randrange(len(good))
    damaged = good[:here] + [at.choice([*Special, "x", ""])] + good[here + at.randrange(3) :]
    reader = FORMATS[format].reader()
    for piece in good[:here]:
        reader.feed(piece)
    whole = len(reader.frames)
    assert FORMATS[format].read(damaged).frames[:whole] == FORMATS[format].read(good).frames[:whole]


def test_problems_in_the_cwm_format_have_names() -> None:
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
        read = FORMATS["cwm"].read(output)
        assert says in read.problem
        assert bool(says) == bool(read.problem)


def test_problems_in_a_session_have_names() -> None:
    end = Special.END_OF_TEXT
    for output, says in (
        ([">>> a = 1\n>>> print('a', a)\na 1\n", end], ""),
        (["1\n", end], "a value of no command"),
        ([">>> a = 1", end], "without its end"),
        ([">>> print('a', a)\na 1\n>>> print('a', a)\na 1\n", end], "shown twice"),
        ([">>> f()\n\\x\n", end], "not JSON"),
        ([">>> f()\n", Special.FRAME_SEP], "in a session"),
        ([">>> f()\n", end, "x"], "after the end"),
    ):
        read = FORMATS["repl"].read(output)
        assert says in read.problem
        assert bool(says) == bool(read.problem)


def test_a_line_that_looks_like_a_query_is_one_if_the_next_line_answers_it() -> None:
    session = ">>> print('a', a)\n>>> print('a', a)\na 2\n>>> a = 3\n"
    assert FORMATS["repl"].read([session, Special.END_OF_TEXT]).frames == (
        ReadFrame(None, "print('a', a)\n"),
        ReadFrame(None, "a = 3\n", {"a": "2"}),
    )


def test_what_a_format_cannot_do_is_refused() -> None:
    task = {"kind": "permutation", "n": 3, "length": 3}
    with pytest.raises(ConfigError, match="the repl format cannot ask for the answer alone"):
        build(DataConfig, {"task": task, "format": "repl", "reveal": {"answer_only": True}}, "test")
    with pytest.raises(ConfigError, match="the cwm format always shows the program"):
        build(DataConfig, {"task": task, "context": False}, "test")
