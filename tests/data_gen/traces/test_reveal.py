"""Reveals: which frames are written, what their states show, and which settings are refused."""

import math

from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.execution.program import UNCHANGED, Event, Frame, Program, Value
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.traces.reveal import RevealConfig, reveal
from remedy.settings import build

values = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2).map(lambda i: Value(str(i), "int")), max_size=3)
frames = st.lists(
    st.one_of(
        st.builds(lambda v: Frame(Event.LINE, 1, "l\n", v), values),
        st.builds(lambda v: Frame(Event.CALL, 1, "c\n", v), values),
        st.builds(
            lambda e: Frame(e, 1, "r\n", None, Value("0", "int")), st.sampled_from([Event.RETURN, Event.EXCEPTION])
        ),
    ),
    max_size=30,
)


@given(
    frames, st.sampled_from([1, 2, 3, 8, math.inf]), st.sampled_from(["full", "diff", "one_in_turn", "one_at_random"])
)
def test_spacing_counts_frames_with_locals_from_the_first_and_keeps_the_last(
    trace: list[Frame], every: float, show: str
) -> None:
    shown = reveal(trace, RevealConfig(spacing=every, locals=show), seed=7)
    with_locals = [i for i, frame in enumerate(trace) if frame.locals is not None]
    step = len(with_locals) or 1 if every == math.inf else int(every)
    kept = {with_locals[i] for i in range(0, len(with_locals), step)} | set(with_locals[-1:])
    assert {i for i, s in enumerate(shown) if s is not None} == kept


@given(frames, st.sampled_from([1, 2, 5]))
def test_a_reader_of_the_diff_can_always_restore_the_values(trace: list[Frame], every: int) -> None:
    shown = reveal(trace, RevealConfig(spacing=every, locals="diff"))
    memory: dict[str, Value] = {}
    for frame, state in zip(trace, shown):
        if frame.event is Event.RETURN:
            memory = {}
        if state is None:
            continue
        if frame.event is Event.CALL:
            assert UNCHANGED not in state.values()
        assert {k: memory[k] if v == UNCHANGED else v for k, v in state.items()} == frame.locals
        memory = dict(frame.locals or {})


@given(frames, st.sampled_from([1, 2, math.inf]))
def test_changes_are_the_diff_without_the_states_in_which_nothing_has_changed(trace: list[Frame], every: float) -> None:
    diff, shown = (reveal(trace, RevealConfig(spacing=every, locals=one)) for one in ("diff", "changes"))
    last = max((number for number, frame in enumerate(trace) if frame.locals is not None), default=None)
    memory: dict[str, Value] = {}
    for number, (frame, whole, state) in enumerate(zip(trace, diff, shown)):
        if frame.event is Event.RETURN:
            memory = {}
        if whole is None:
            assert state is None
        elif state is None:
            assert frame.locals == memory
            assert number != last
            assert frame.event is Event.LINE
        else:
            assert state == whole
            assert frame.event is Event.CALL or number == last or frame.locals != memory or list(memory) != list(state)
            memory = frame.locals or {}


def test_a_return_clears_the_memory_and_an_exception_does_not() -> None:
    state = {"a": Value("1", "int")}
    line = Frame(Event.LINE, 1, "l\n", state)
    end = Frame(Event.RETURN, 1, "r\n", None, Value("0", "int"))
    raised = Frame(Event.EXCEPTION, 1, "e\n", None, Value("0", "int"))
    diff = RevealConfig(locals="diff")
    assert reveal([line, raised, line, end], diff)[2] == {"a": UNCHANGED}
    assert reveal([line, end, line, end], diff)[2] == state


def test_a_session_without_a_returned_value_ends_on_its_full_state() -> None:
    state = {name: Value("1", "int") for name in "ab"}
    shown = reveal([Frame(Event.LINE, 1, "l\n", state)] * 3, RevealConfig(locals="diff"))
    assert shown[1] == {"a": UNCHANGED, "b": UNCHANGED}
    assert shown[2] == state


def test_the_four_frames_of_the_settings_documentation() -> None:
    code = "def f(a, b):\n    a += b\n    b = 0\n    return a"
    frames = trace(Program.from_call(code, "1, 2")).frames[2:7]
    assert [frame.source.strip() for frame in frames[:4]] == ["def f(a, b):", "a += b", "b = 0", "return a"]
    table = RevealConfig.__doc__ or ""
    for line, frame in zip(table.split("frame    ")[1].splitlines()[1:5], frames[:4], strict=True):
        assert frame.source.strip() in line
        shown = [
            reveal(frames, build(RevealConfig, settings), 0)[frames.index(frame)]
            for settings in ({}, {"spacing": 4}, {"locals": "diff"}, {"locals": "one_in_turn"})
        ]
        cells = [
            "-" if s is None else "{" + ", ".join(f"{name}: {value.text}" for name, value in s.items()) + "}"
            for s in shown
        ]
        assert line.split(frame.source.strip())[1].split() == " ".join(cells).split()
