"""The tracer: its events are CPython's, and its traces those that the 32B code world model writes."""

import ast
import importlib
import json
import random
import re
import signal
import threading
import unittest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.execution.describe import describe
from remedy.data_gen.execution.program import MARKER, Event, Program, ProgramError, Trace, TraceLimits
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from tests.data_gen.execution.reference_tracer import steps


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


def test_a_guarded_script_does_not_run_before_the_trace() -> None:
    code = "log = []\ndef main():  # << START_OF_TRACE\n    log.append(1)\n    return log\nif __name__ == '__main__':\n    main()\n"
    result = trace(Program(code)).result
    assert result is not None
    assert result.text == "[1]"


UNREADABLE = [
    ("p = Point(3)\nreturn p.x", "__init__", "<traced_program.Point object>", 2),
    ("p = Point.__new__(Point)\nq = [p]\nreturn 1", "return 1", "<list object>", 3),
    ("p = Point(10 ** 5000)\nreturn 1", "return 1", "Point(1" + "0" * 5000 + ")", 2),
    ("p = 10 ** 5000\nq = {1: p}\nreturn 1", "return 1", "{1: 1" + "0" * 5000 + "}", 0),
    ("q = 10 ** 200_000\nreturn 1", "return 1", "<int object>", 1),
    ("q = Loop()\nreturn 1", "return 1", "<traced_program.Loop object>", 1),
]
CLASSES = """
class Point:
    def __init__(self, x):
        self.x = x
    def __repr__(self):
        return f'Point({self.x})'
class Loop:
    def __repr__(self):
        return repr(self)
"""


@pytest.mark.parametrize(("body", "line", "text", "count"), UNREADABLE, ids=[text[:12] for _, _, text, _ in UNREADABLE])
def test_a_value_whose_repr_raises_is_shown_as_an_object_and_counted(
    body: str, line: str, text: str, count: int
) -> None:
    one = program(body, CLASSES)
    found = trace(one)
    [state] = [f.locals for f in found.frames if line in f.source and f.event in (Event.CALL, Event.LINE)]
    assert state is not None
    assert [value.text for value in state.values() if value.text == text]
    assert found.unreadable == count
    assert found.result is not None
    if count:
        with pytest.raises(ProgramError, match=r"the repr of a value raised|recursed too deeply") as error:
            trace(one, TraceLimits(unreadable=False))
        assert error.value.kind in ("repr", "recursion")
    with pytest.raises(ValueError, match="Exceeds the limit"):  # the program's own limit is as it was
        str(10**5000)


def test_what_a_program_draws_is_the_same_in_every_run_and_ours_goes_on() -> None:
    drawn = program(
        "return [random.random() for _ in range(3)], Random(7).random()", "import random\nfrom random import Random"
    )
    random.seed(5)
    before = random.getstate()
    first, second = trace(drawn), trace(drawn)
    assert random.getstate() == before
    assert first.frames == second.frames
    random.seed(0)
    again = [random.random() for _ in range(3)]
    assert first.result is not None
    assert first.result.text == repr((again, random.Random(7).random()))


COPIES = {
    "types.coroutine": "import types\n@types.coroutine\ndef g():\n    x = yield 1\n    return x\nasync def f():\n    return await g()\n"
    "def run():\n    k = f()\n    k.send(None)\n    try: k.send(2)\n    except StopIteration as end: return end.value",
    "another name": "def run():\n    x = 1\n    return x\nrun.__code__ = run.__code__.replace(co_name='other')",
    "another function": "import types\ndef old():\n    x = 1\n    return x\n"
    "run = types.FunctionType(old.__code__.replace(co_qualname='o'), {})",
}


@pytest.mark.parametrize("before", COPIES.values(), ids=COPIES.keys())
def test_copies_of_the_programs_own_code_are_recorded(before: str) -> None:
    found = trace(program("return run()", before))
    expected = steps(found.program.code)
    assert [(f.event.value, f.line) for f in found.frames] == [(event, line) for event, line, _, _ in expected]
    assert len(found.frames) > 6


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


def shown(found: Trace, name: str) -> str:
    """What the last frame with locals shows of a name."""
    state = next(frame.locals for frame in reversed(found.frames) if frame.locals is not None)
    return state[name].text


def test_the_trace_ends_with_the_entrys_return() -> None:
    generator = trace(program("yield_later = (i for i in 'ab')\nreturn yield_later"))
    assert [frame.event for frame in generator.frames[-2:]] == [Event.LINE, Event.RETURN]
    assert generator.result == ("<generator object main.<locals>.<genexpr>>", "generator")
    gone = "class Gone:\n    def __del__(self):\n        x = 1"
    for body in ("return Gone()", "gone = Gone()\nreturn gone", "gone = Gone()\nreturn 1"):
        found = trace(program(body, gone))
        assert found.result is not None
        assert found.frames[-1].source.strip().startswith("return")
        assert sum(frame.event is Event.CALL for frame in found.frames) == 1


def test_the_trace_is_of_the_marked_functions_own_run() -> None:
    decorated = Program(
        "def twice(f):\n    def wrapper():\n        f()\n        return f()\n    return wrapper\n"
        f"@twice\ndef main():  {MARKER}\n    return 1\n"
    )
    found = trace(decorated)
    assert [frame.source.strip() for frame in found.frames] == ["@twice", "return 1", "return 1"]
    assert found.result == ("1", "int")


@given(st.text(alphabet="\r\n\x0b\x0c\x1c\x85\u2028x", max_size=12))
def test_any_text_has_the_lines_that_cpython_finds(text: str) -> None:
    code = f"'''{text}'''\ndef main(): return 1\n"
    [function] = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    assert Program(code).physical_lines()[function.lineno - 1] == "def main(): return 1\n"


def test_reprs_with_half_a_character_and_names_of_classes_are_written_down() -> None:
    found = trace(program("x = A()\nreturn x", "class A:\n    def __repr__(self): return 'a\\ud800é'"))
    assert found.result == ("a\\ud800é", "A")
    body = "class A:\n    locals()[5] = 1\n    locals()['a b'] = 2\n    locals()['\\ud800'] = 3\n    y = 2\n    z = 3\nreturn A.y"
    found = trace(program(body))
    states = [frame.locals for frame in found.frames if frame.source == "        z = 3\n" and frame.locals is not None]
    assert [name for name in states[0] if not name.startswith("__")] == ["y"]
    assert found.result == ("2", "int")


def test_reprs_and_types_that_lie_are_read_as_what_they_are() -> None:
    before = (
        "class T(str):\n    def __len__(self): return 0\n    def __contains__(self, o): return False\n"
        "class M(type):\n    __name__ = 5\nclass A(metaclass=M):\n    def __repr__(self): return T('<A at 0x12>')"
    )
    assert trace(program("return A()", before)).result == ("<A>", "A")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("hashlib.sha256()", "<sha256 _hashlib.HASH object>"),
        ("hmac.new(b'k', b'm', 'sha1')._hmac", "<sha1 HMAC object>"),
        ("held", "<locked _thread.RLock object count=1>"),
        ("threading.RLock()", "<unlocked _thread.RLock object owner=0 count=0>"),
        ("threading.current_thread()", "<_MainThread(MainThread, started)>"),
        ("ctypes.byref(ctypes.c_int())", "<cparam 'P'>"),
        ("unittest.mock.Mock(name='n')", "<Mock name='n'>"),
        ("'<a id=3> owner=5 started 123456789) @ 0x12 (0x34)'", "'<a id=3> owner=5 started 123456789) @ 0x12 (0x34)'"),
    ],
)
def test_values_are_shown_without_addresses_in_any_form(made: str, text: str) -> None:
    names = {
        name: importlib.import_module(name) for name in ("ctypes", "hashlib", "hmac", "threading", "unittest.mock")
    }
    held = threading.RLock()
    with held:
        value = eval(made, {**names, "unittest": unittest, "held": held})
        assert describe(value).text == text


@pytest.mark.parametrize(
    "raised", ["KeyboardInterrupt", "SystemExit(3)", "BaseException()", "GeneratorExit", "Own", "MyError()"]
)
def test_any_exception_of_the_program_is_traced_and_stays_inside(raised: str) -> None:
    before = "class Own(BaseException): pass\nclass MyError(Exception):\n    def __str__(self): raise KeyboardInterrupt"
    found = trace(program(f"raise {raised}", before))
    assert found.raised
    assert [frame.event for frame in found.frames[-2:]] == [Event.EXCEPTION, Event.RETURN]
    with pytest.raises(ProgramError, match="while loading") as error:
        trace(program("return 1", f"{before}\nif True: raise {raised}"))
    assert error.value.kind == "raised"


def test_an_interrupt_of_the_users_ends_us_even_if_the_program_swallows_it() -> None:
    handler = signal.getsignal(signal.SIGINT)
    body = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    x = 1\nreturn 1"
    with pytest.raises(KeyboardInterrupt):
        trace(program(body))
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [
        ("syntax", f"def main():  {MARKER}\n    return )\n", "does not compile"),
        ("entry", "def main():\n    return 1\n", "no function marked"),
        ("entry", f"def f(x):  {MARKER}\n    return x\n", "need no arguments"),
        (
            "raised",
            f"raise ValueError('boom')\ndef main():  {MARKER}\n    return 1\n",
            "ValueError while loading: boom",
        ),
        ("recursion", f"def f():\n    return f()\ndef main():  {MARKER}\n    return f()\n", "recursed too deeply"),
        ("entry", f"async def main():  {MARKER}\n    return 1\n", "main is `async def`"),
        ("entry", f"def outer():\n    def main():  {MARKER}\n        return 1\n", "main is inside outer"),
        ("entry", f"def main():  {MARKER}\n    yield 1\n", "main is a generator"),
        ("entry", f"def main():  {MARKER}\n    return 1\nmain = 5\n", "not what its name stands for"),
        ("entry", f"if False:\n    def main():  {MARKER}\n        return 1\n", "not what its name stands for"),
        ("entry", f"text = '''\ndef main():  {MARKER}\n'''\n", "no function marked"),
        (
            "repr",
            f"class A:\n    def __repr__(self): raise SystemExit\ndef main():  {MARKER}\n    x = A()\n    return 1\n",
            "SystemExit",
        ),
        ("syntax", f"x = '\ud800'\ndef main():  {MARKER}\n    return 1\n", "does not compile"),
    ],
)
def test_programs_without_a_trace_say_why_in_one_line(kind: str, code: str, says: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(says)) as error:
        trace(Program(code, "p.py"))
    assert error.value.kind == kind
    assert str(error.value).isprintable()


def test_a_generator_that_runs_deeper_than_is_recorded_leaves_no_frames() -> None:
    before = "def g():\n    yield 1\n    yield 2\ndef inner(it):\n    return next(it)"
    found = trace(program("it = g()\na = next(it)\nb = inner(it)\nreturn b", before), depth=1)
    assert found.result == ("2", "int")
    assert [f.source.strip() for f in found.frames if f.event is Event.CALL] == [
        "def main():",
        "def g():",
        "def inner(it):",
    ]
