"""A true trace never contradicts itself; one that takes another way than its own states say does, whether these are true or not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.execution.program import MARKER, Event, Program, Trace
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Special
from remedy.data_gen.traces.parse import ReadFrame, ReadTrace
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import ControlFlow
from remedy.eval.control_flow.evaluator import check

LOOP = Program(
    f"""\
def main():  {MARKER}
    x = [1, 2]
    for i in x:
        if i > 1:
            y = 'aa'
        else:
            y = 'b'
    return y
"""
)


def written(found: Trace, locals: str = "full") -> list[ReadFrame]:
    frames = render(found, config=RevealConfig.model_validate({"locals": locals})).frames
    return [frame.as_read() for frame in frames]


def replaced(frames: list[ReadFrame], number: int, source: str) -> list[ReadFrame]:
    old = frames[number]
    return [*frames[:number], ReadFrame(old.event, source, old.locals, old.value), *frames[number + 1 :]]


@pytest.mark.parametrize("locals", ["full", "diff"])
def test_true_traces_do_not(locals: str) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "depth": 3}})
    for example in [*(one.trace for one in examples(data, "test", range(20))), trace(LOOP)]:
        found = check(ControlFlow(example.program), written(example, locals))
        assert not found.contradictions
        assert found.outside is None


@pytest.mark.parametrize("locals", ["full", "diff"])
def test_the_other_branch_does(locals: str) -> None:
    frames = written(trace(LOOP), locals)
    number = next(n for n, frame in enumerate(frames) if "y = 'b'" in frame.source)
    wrong = replaced(frames, number, "            y = 'aa'\n")
    found = check(ControlFlow(LOOP), wrong)
    assert found.contradictions == [number]
    assert found.outside is None


def test_a_line_that_is_no_other_way_is_outside_and_no_contradiction() -> None:
    frames = written(trace(LOOP))
    found = check(ControlFlow(LOOP), replaced(frames, 1, "    return y\n"))
    assert found.outside == 1
    assert not found.contradictions


def test_a_loop_that_is_left_early_and_an_end_that_comes_early() -> None:
    frames = written(trace(LOOP))
    number = next(n for n, frame in enumerate(frames) if n > 2 and "for i" in frame.source)
    left = ReadFrame(Event.LINE, "    return y\n", frames[number].locals)
    assert check(ControlFlow(LOOP), [*frames[: number + 1], left], ended=False).contradictions == [number + 1]
    assert check(ControlFlow(LOOP), frames[:3]).outside == 3


def test_lines_by_their_numbers() -> None:
    numbers = {line: number for number, line in enumerate(LOOP.physical_lines(), start=1)}
    frames = [ReadFrame(one.event, f"{numbers[one.source]}\n", one.locals, one.value) for one in written(trace(LOOP))]
    assert check(ControlFlow(LOOP), frames).outside == 0
    found = check(ControlFlow(LOOP), frames, source=lambda step: f"{step.line}\n" * (step.line > 0))
    assert found.outside is None
    assert not found.contradictions


@pytest.mark.parametrize("state", [None, {"x": ".."}, {"x": "nonsense("}, {}])
def test_after_a_state_that_says_nothing_nothing_is_said(state: dict[str, str] | None) -> None:
    frames = written(trace(LOOP))
    number = next(n for n, frame in enumerate(frames) if "for i" in frame.source)
    blind = ReadFrame(Event.LINE, frames[number].source, state)
    left = ReadFrame(Event.LINE, "    return y\n", None)
    assert not check(ControlFlow(LOOP), [*frames[:number], blind, left], ended=False).contradictions


def read(text: str) -> ReadTrace:
    """A trace as a served model gives it, special tokens as their names."""
    names = {special.value: special for special in Special}
    reader = FORMATS["cwm"].reader()
    for piece in re.split(f"({'|'.join(map(re.escape, names))})", text):
        reader.feed(names.get(piece, piece))
    return reader.trace()


def test_right_outputs_of_the_32b_model(shared: Path) -> None:
    for line in (shared / "cwm_real_traces.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = read(row["generation"])
        checked = check(ControlFlow(Program.from_call(row["code"], row["input"], row["id"])), found.frames)
        assert checked.outside is None
        assert not checked.contradictions
