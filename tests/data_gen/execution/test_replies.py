"""What a sandbox answers is a trace of its program or a named outcome: never a traceback, never an invented trace."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.execution import replies
from remedy.data_gen.execution.program import OUTCOMES, Program, ProgramError, Trace
from remedy.data_gen.execution.replies import read
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.execution.wire import problem_writer, reply_writer

PROGRAM = Program(
    "def f(x):\n    y = x + 1\n    return y\ndef main():  # << START_OF_TRACE\n    try:\n        return f(3)\n"
    "    except ValueError:\n        return -1\n",
    "mine.py",
)
TRUE = json.loads(reply_writer()(trace(PROGRAM)))
FRAMES = TRUE["frames"]
REST = {"raised": False, "unreadable": 0, "end": None}
"""CALL main, LINE try, LINE return f(3), CALL f, LINE y, LINE return y, RETURN 4, RETURN 4."""


def checked(reply: object) -> Trace:
    """The trace of a reply that is sent as JSON."""
    return read(json.dumps(reply).encode(), PROGRAM)


def outcome(reply: object) -> str:
    """`ok`, or the kind of the error, whose message must be a short printable line."""
    try:
        checked(reply)
    except ProgramError as problem:
        error = problem
    else:
        return "ok"
    assert error.kind in OUTCOMES
    assert str(error).isprintable()
    assert len(str(error)) < 500
    return error.kind


def changed(*place: Any, to: Any) -> Any:
    """The true reply with another value at a place, such as frame 2, field 1."""
    reply: Any = copy.deepcopy(TRUE)
    inner = reply["frames"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = to
    return reply


def test_a_true_reply_is_the_trace() -> None:
    assert checked(TRUE) == trace(PROGRAM)
    assert outcome(json.loads(problem_writer()("time", "mine.py: too long"))) == "time"


def test_a_long_reply_is_read_only_in_a_tracers_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as JSON, a reply of empty lists takes 24 times its size of our memory."""
    monkeypatch.setattr(replies, "_LONG", 1000)
    odd = ['x"\\', "\u20ac\n", "int"]
    many = {"frames": [*FRAMES, ["line", 2, [odd, odd], None]] * 200, **REST}
    text = json.dumps(many).encode()
    with pytest.raises(ProgramError, match="a frame outside the entry's"):
        read(text, PROGRAM)
    for filler in (b"[]", b"{}", b'[""]', b"1e9"):
        inside = b",".join([filler] * 1000)
        for junk in (
            b"[%b]" % inside,
            b'{"frames": [%b], "raised": false, "unreadable": 0, "end": null}' % inside,
            text[:-1] + b", %b}" % inside,
        ):
            with pytest.raises(ProgramError, match="form of a trace"):
                read(junk, PROGRAM)


MALFORMED: dict[str, Any] = {
    "an exception that nothing raised": {**TRUE, "raised": True},
    "nothing on an exception": {"frames": FRAMES, "unreadable": 0, "end": None},
    "an end that is no value": {**TRUE, "end": "4"},
    "more that cannot be read than there is": {**TRUE, "unreadable": 9},
    "nothing": None,
    "no frames": {"frames": [], **REST},
    "frames beside an error": {**TRUE, "error": "time", "message": "m"},
    "an error without a message": {"error": "time"},
    "an error of an invented kind": {"error": "fine", "message": "m"},
    "an error that the sandbox cannot know": {"error": "mismatch", "message": "m"},
    "a message with a lone surrogate": {"error": "time", "message": "\ud800"},
    "an unknown event": changed(1, 0, to="jump"),
    "a line that is a yes": changed(1, 1, to=True),
    "a line before the first": changed(1, 1, to=0),
    "a line after the last": changed(1, 1, to=10),
    "locals that are an object": changed(4, 2, to={"x": ["3", "int"]}),
    "locals that are missing": changed(4, 2, to=None),
    "locals on a return": changed(6, 2, to=[]),
    "a name that can be none": changed(4, 2, to=[["x y", "3", "int"]]),
    "a name twice": changed(4, 2, to=[["x", "3", "int"], ["x", "4", "int"]]),
    "a local's text with a lone surrogate": changed(4, 2, to=[["x", "\ud800", "int"]]),
    "a value that is missing": changed(7, 3, to=None),
    "a value with a lone surrogate": changed(7, 3, to=["'\udfff'", "str"]),
    "a value on a line": changed(1, 3, to=["4", "int"]),
    "no return of the entry": {"frames": FRAMES[:-1], **REST},
    "no call of the entry": {"frames": FRAMES[1:], **REST},
    "a return too many": {"frames": [*FRAMES, FRAMES[7]], **REST},
    "another function's call at first": {"frames": FRAMES[3:7], **REST},
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_reply_is_forged(what: str) -> None:
    assert outcome(MALFORMED[what]) == "forged"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["call", "line"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_whatever_is_changed_in_a_reply_ends_as_a_trace_or_an_outcome(data: st.DataObject) -> None:
    reply = copy.deepcopy(TRUE)
    inner: Any = reply
    while isinstance(inner, dict | list) and inner and (inner is reply or data.draw(st.integers(0, 3))):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        outer, inner = inner, inner[key]
    outer[key] = data.draw(json_values)
    assert outcome(reply) in ("ok", "forged")
    if outcome(reply) == "ok":  # what is accepted can be written to a file
        assert isinstance(checked(reply), Trace)
        repr(checked(reply).frames).encode()


@given(json_values)
def test_any_json_is_forged(reply: Any) -> None:
    assert outcome(reply) == "forged"
    assert outcome({"frames": reply, **REST}) == "forged"
    assert outcome({"frames": [reply], **REST}) == "forged"


def test_what_an_error_says_is_one_short_line() -> None:
    for text in ("a\nb", "\x1b[31mred", "x" * 50_000_000, "\x00\u2028\x85"):
        with pytest.raises(ProgramError) as error:
            checked({"error": "raised", "message": text})
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 500


def test_every_outcome_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [f"| `{kind}` | {why} |" for kind, why in OUTCOMES.items() if f"| `{kind}` | {why} |" not in text] == []


PIPE = (
    "import os, json, struct\ndef send(data):\n    for fd in range(3, 40):\n"
    "        try: os.write(fd, struct.pack('<Q', len(data)) + data)\n        except OSError: pass\n"
)
LIE = json.dumps({"frames": [["call", 7, [], None], ["return", 8, None, ["42", "int"]]], **REST})


@pytest.mark.parametrize(
    "data",
    [
        LIE.encode(),
        b"[" * 60_000,
        b'{"frames": ' * 20_000,
        b"",
        b"\xff\xfe",
        b'{"error": "ok", "message": "fine"}',
        b'{"error": "time", "message": "stopped"}',
        b'{"error": "raised", "message": "' + b"x" * 100_000 + b'"}',
        b"1" * 5000,
        b"NaN",
    ],
    ids=lambda data: data[:12].decode(errors="replace"),
)
def test_what_a_program_writes_to_the_pipe_is_forged_and_the_batch_goes_on(data: bytes) -> None:
    liar = Program(f"{PIPE}LIE = {data!r}\ndef main():  # << START_OF_TRACE\n    send(LIE)\n    return 1\n", "liar.py")
    with Sandbox(TracerConfig(timeout_seconds=5)) as box:
        with pytest.raises(ProgramError) as error:
            box.trace(liar)
        assert error.value.kind == "forged"
        assert box.trace(PROGRAM).frames == trace(PROGRAM).frames
