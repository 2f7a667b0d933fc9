"""The tracer: its events are CPython's, and its traces those that the 32B code world model writes."""

import json
import re
from pathlib import Path

import pytest

from remedy.data_gen.execution.program import Event, Program, ProgramError
from remedy.data_gen.execution.tracer import TraceLimits, trace
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig


def program(body: str, before: str = "") -> Program:
    text = "\n".join(f"    {line}" for line in body.split("\n"))
    return Program(f"{before}\ndef main():  # << START_OF_TRACE\n{text}\n", "example.py")


def test_real_traces_of_the_32b_model_byte_for_byte(shared: Path) -> None:
    lines = (shared / "cwm_real_traces.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6
    for line in lines:
        real = json.loads(line)
        spans = render(trace(Program.from_call(real["code"], real["input"])), "cwm", RevealConfig(locals="diff")).spans
        ours = spans_text([span for span in spans if span.role is not Role.CONTEXT])
        assert ours == re.sub(r" at 0x[0-9a-f]+", "", real["generation"]), real["id"]


def test_true_outputs_of_cruxeval(shared: Path) -> None:
    for line in (shared / "cruxeval.jsonl").read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        result = trace(Program.from_call(task["code"], task["input"], task["id"])).result
        assert result is not None
        assert eval(result.text) == eval(task["output"]), task["id"]  # the data set's own expressions


def test_frames_hold_the_state_before_the_line() -> None:
    frames = trace(program("x = 1\nx = 2\nreturn x")).frames
    assert [(f.event, f.source.strip()) for f in frames] == [
        (Event.CALL, "def main():"),
        (Event.LINE, "x = 1"),
        (Event.LINE, "x = 2"),
        (Event.LINE, "return x"),
        (Event.RETURN, "return x"),
    ]
    assert [{k: v.text for k, v in f.locals.items()} for f in frames if f.locals is not None] == [
        {},
        {},
        {"x": "1"},
        {"x": "2"},
    ]
    assert frames[-1].value == ("2", "int")


def test_source_keeps_indentation_tabs_and_trailing_spaces() -> None:
    source = "\tx = 'a'  \n"
    frames = trace(Program(f"def main():  # << START_OF_TRACE\n{source}\treturn x")).frames
    assert frames[1].source == source


def test_generators_are_frames_of_their_own() -> None:
    frames = trace(program("return sum(i for i in range(2))")).frames
    names = [sorted(f.locals) for f in frames if f.event is Event.CALL]
    assert names == [[], [".0"], [".0", "i"], [".0", "i"]]


def test_an_exception_that_leaves_the_entry_is_recorded() -> None:
    frames = trace(program("return {}['k']")).frames
    assert [f.event for f in frames[-2:]] == [Event.EXCEPTION, Event.RETURN]
    assert frames[-2].value is not None
    assert frames[-2].value.text == "(<class 'KeyError'>, KeyError('k'), <traceback object>)"


def test_addresses_are_removed() -> None:
    frames = trace(program("x = object()\nreturn x")).frames
    assert frames[-1].value is not None
    assert frames[-1].value.text == "<object object>"


def test_a_guarded_script_does_not_run_before_the_trace() -> None:
    code = "log = []\ndef main():  # << START_OF_TRACE\n    log.append(1)\n    return log\nif __name__ == '__main__':\n    main()\n"
    result = trace(Program(code)).result
    assert result is not None
    assert result.text == "[1]"


@pytest.mark.parametrize(
    ("kind", "broken", "says"),
    [
        ("syntax", Program("def main(:  # << START_OF_TRACE\n", "p.py"), "does not compile"),
        ("syntax", Program("def main():  # << START_OF_TRACE\n    return )\n", "p.py"), "does not compile"),
        ("entry", Program("def main():\n    return 1\n", "p.py"), "no function marked"),
        ("entry", Program("def f(x):  # << START_OF_TRACE\n    return x\n", "p.py"), "need no arguments"),
        ("raised", program("return 1", "raise ValueError('boom')"), "ValueError while loading: boom"),
        ("repr", program("x = A()\nreturn 1", "class A:\n    def __repr__(self):\n        raise OSError"), "OSError"),
        ("recursion", program("return f()", "def f():\n    return f()"), "recursed too deeply"),
    ],
)
def test_programs_that_cannot_be_traced_say_why(kind: str, broken: Program, says: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(says)) as error:
        trace(broken)
    assert error.value.kind == kind
    assert broken.name in str(error.value)


def test_frame_and_output_limits_hold_even_if_the_program_catches_everything() -> None:
    endless = program("while True:\n    try:\n        x = 1\n    except BaseException:\n        return x")
    with pytest.raises(ProgramError, match="100 frames"):
        trace(endless, TraceLimits(frames=100))
    with pytest.raises(ProgramError, match="1000 characters"):
        trace(program("x = 'a' * 2000\nreturn x"), TraceLimits(output=1000))


@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ("return 1 // 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("try:\n    return 1 // 0\nfinally:\n    handled()", "ZeroDivisionError"),
        ("return None", None),
        ("handled()", None),
        ("with suppress(ValueError): int('x')", None),
        ("for x in Empty(): pass", None),
    ],
)
def test_a_program_that_raised_is_told_from_one_that_returned_none(body: str, raised: str | None) -> None:
    """The last frame is a RETURN of None either way, and the events before it do not always tell."""
    before = (
        "from contextlib import suppress\n"
        "class Empty:\n    def __iter__(self): return self\n    def __next__(self): raise StopIteration\n"
        "def handled():\n    try:\n        int('y')\n    except ValueError:\n        pass"
    )
    traced = trace(program(body, before))
    assert (traced.frames[-1].event, traced.frames[-1].value) == (Event.RETURN, ("None", "NoneType"))
    if raised is None:
        assert (traced.raised, traced.result, traced.exception_frame) == (False, ("None", "NoneType"), None)
    else:
        assert (traced.raised, traced.result) == (True, None)
        assert traced.exception_frame is not None
        value = traced.frames[traced.exception_frame].value
        assert value is not None
        assert value.text.startswith(f"(<class '{raised}'>")
