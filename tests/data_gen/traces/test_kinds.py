"""Kinds of what a true trace shows, by hand for each format."""

from typing import Any

import pytest

from remedy.data_gen.execution.program import Event, Frame, Program, Trace, Value
from remedy.data_gen.traces.kinds import kinds
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig

CODE = """def f(n):
    # twice
    n = g(n)

    n = n
    return n
def g(k):
    return k
def main():  # << START_OF_TRACE
    return f(1)
"""
LINES = Program(CODE).physical_lines()


def frame(event: Event, line: int, value: str = "", **names: str) -> Frame:
    state = {name: Value(text, "int") for name, text in names.items()}
    returned = Value(value, "int") if value else None
    return Frame(event, line, LINES[line - 1], None if value else state, returned)


CALL, LINE, RETURN = Event.CALL, Event.LINE, Event.RETURN
TRACE = Trace(
    Program(CODE),
    [
        frame(CALL, 9),
        frame(LINE, 10),
        frame(CALL, 1, n="1"),
        frame(LINE, 3, n="1"),
        frame(CALL, 7, k="1"),
        frame(LINE, 8, k="1"),
        frame(RETURN, 8, value="2"),
        frame(LINE, 5, n="2"),
        frame(LINE, 6, n="2"),
        frame(RETURN, 6, value="2"),
        frame(RETURN, 10, value="3"),
    ],
)


def of(format: str, trace: Trace = TRACE, **reveal: Any) -> dict[str, set[int]]:
    config = RevealConfig(**reveal)
    return kinds(trace, render(trace, format, config).frames, config)


def test_kinds_of_a_trace_by_hand() -> None:
    assert (
        of("cwm")
        == of("cwm", locals="diff")
        == {
            "argument_states": {2, 4},
            "unchanged_states": {1, 3, 5, 8},
            "changed_states": {7},
            "lines_below": {1, 3, 5, 7, 8},  # blank lines and comments are passed over
            "values_repeated": {9},
        }
    )
    assert of("cwm_unseeded")["unchanged_states"] == {0, 1, 3, 5, 8}  # a call of nothing begins with the empty state
    changes = of("cwm", locals="changes")
    assert (changes["unchanged_states"], changes["changed_states"]) == ({8}, {7})  # the last state is always shown
    every_third = of("cwm", spacing=3)  # where the call is not shown, nothing of it is known
    assert (every_third["argument_states"], every_third["changed_states"]) == (set(), {3, 7})
    assert of("cwm", call_depth=0) == {
        **{name: set() for name in of("cwm")},
        "unchanged_states": {1},
        "lines_below": {1},
    }


@pytest.mark.parametrize("format", ["repl", "symbolic"])
def test_a_session_begins_with_what_it_sets_and_is_compared_with_its_last_state(format: str) -> None:
    program = Program("a = 1\nb = 2\na, b = b, a\nb, a = b, a\na, b = b, a\n")
    states = [("1", "2"), ("2", "1"), ("2", "1"), ("1", "2")]
    sources = [*program.physical_lines()[2:5], ""]
    frames = [
        Frame(LINE, 3 + place, source, {name: Value(text, "int") for name, text in zip("ab", state)})
        for place, (source, state) in enumerate(zip(sources, states))
    ]
    trace = Trace(program, frames, ["a = 1", "b = 2"])
    found = of(format, trace)
    assert (found["unchanged_states"], found["changed_states"]) == ({0, 2}, {1, 3})
    assert found == of(format, trace, locals="diff")
    assert found["lines_below"] >= {0, 1, 2}
    # One variable in turn is compared with what was last shown of it, else with what the session sets.
    partial = of(format, trace, locals="one_in_turn")  # a, b, a, and all at the end
    assert (partial["unchanged_states"], partial["changed_states"]) == ({0}, {1, 2, 3})
