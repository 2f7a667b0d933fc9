"""Formats that write the number of every frame's line tell lines of one text apart."""

import re

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Special, spans_text
from remedy.data_gen.traces.render import render


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
