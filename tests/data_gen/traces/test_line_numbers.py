"""Formats that write the number of every frame's line tell lines of one text apart."""

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Special, spans_text
from remedy.data_gen.traces.render import render

TWICE = """class A:
    def __init__(self, xs):
        self.xs = xs


class B:
    def __init__(self, xs):
        self.xs = xs


def low(xs):
    return [x for x in xs]


def high(xs):
    return [x for x in xs]


def up(n):
    for i in range(n):
        yield i


def down(n):
    for i in range(n):
        yield i


def main():  # << START_OF_TRACE
    add = lambda x: x + 1
    add = lambda x: x + 1
    first = B([add(1)])
    first = high(first.xs)
    try:
        first = [i for i in down(first)]
    except TypeError:
        first = [i for i in down(2)]
    return first
"""
"""Whoever of those runs whose lines are the same, it is the second."""


def seen_lines(code: str) -> list[int]:
    """The line numbers of the events of `main`, as CPython gives them."""
    found: list[int] = []

    def follow(frame: Any, event: str, arg: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != "watched":
            return None
        found.append(frame.f_lineno)
        return follow

    space: dict[str, Any] = {"__name__": "watched"}
    exec(compile(code, "watched", "exec"), space)
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        space["main"]()
    finally:
        sys.settrace(before)
    return found


def test_lines_of_one_text_are_told_apart() -> None:
    found = trace(Program(TWICE))
    assert [frame.line for frame in found.frames] == seen_lines(TWICE)
    first, second = ([TWICE.index(text), TWICE.rindex(text)] for text in ("        self.xs", "        yield i"))
    assert first[0] < first[1]
    assert second[0] < second[1]
    numbers = [frame.source.split()[0] for frame in render(found, "cwm_numbered").frames if "yield" in frame.source]
    assert set(numbers) == {str(TWICE[: second[1]].count("\n") + 1)}


def test_numbers_stand_beside_the_lines_or_for_them() -> None:
    code = "def f(a):\n    a += 1\n    a += 1\n    return a\ndef main():  # << START_OF_TRACE\n    return f(1)\n"
    traced = trace(Program(code))
    beside, alone = (render(traced, name) for name in ("cwm_numbered", "cwm_numbers"))
    assert [frame.source for frame in beside.frames] == [
        "6     return f(1)\n",
        "1 def f(a):\n",
        "2     a += 1\n",
        "3     a += 1\n",
        "4     return a\n",
        "4     return a\n",
        "6     return f(1)\n",
    ]
    assert [frame.source for frame in alone.frames] == ["6\n", "1\n", "2\n", "3\n", "4\n", "4\n", "6\n"]
    for written in (beside, alone):
        prompt = spans_text([span for span in written.spans if span.role is Role.CONTEXT])
        assert "\n2     a += 1\n3     a += 1\n4 " in prompt
        actions = [
            span.piece for span in written.spans if span.role is Role.ACTION and not isinstance(span.piece, Special)
        ]
        assert actions == [frame.source for frame in written.frames]


def test_a_program_may_stand_anywhere_in_its_file() -> None:
    """Where, is drawn for each index anew, and changes its numbers alone."""
    task = {"kind": "permutation", "n": 3, "length": [1, 4], "answer": "none"}
    for format in ("cwm_numbered", "cwm_numbers"):
        top, placed = (
            examples(
                DataConfig.model_validate({"task": task, "format": format, "first_line": first}), "train", range(200)
            )
            for first in (1, [9, 40])
        )
        firsts = [one.trace.program.first_line for one in placed]
        assert set(firsts) == set(range(9, 41))
        again = DataConfig.model_validate({"task": task, "format": format, "first_line": [9, 40]})
        assert [one.trace.program.first_line for one in examples(again, "train", [70, 3])] == [firsts[70], firsts[3]]
        for one, other, first in zip(top, placed, firsts):
            assert (one.program, one.identity, one.answer) == (other.program, other.identity, other.answer)
            assert numbers_moved(spans_text(one.spans), first - 1) == spans_text(other.spans)


def numbers_moved(text: str, by: int) -> str:
    """The text with so much added to every line's number."""
    return re.sub(r"(?m)(^|<\|action_sep\|>)([0-9]+)", lambda found: f"{found[1]}{int(found[2]) + by}", text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"format": "cwm", "first_line": 5},
            "first_line 5 does nothing in the cwm format, whose lines have no numbers",
        ),
        ({"format": "cwm_numbered", "first_line": 0}, "first_line must be 1 to 1000000, or .* got 0"),
        ({"format": "cwm_numbers", "first_line": [5, 2]}, "first_line must be 1 to 1000000, or .* got"),
    ],
)
def test_first_lines_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig.model_validate({"task": {"kind": "permutation"}, **settings})
