"""Frames left out and loops folded, on programs that are drawn: each loop's variable says which of its rounds a frame is in."""

import math
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.execution.program import Event, Program, Trace
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, spans_text
from remedy.data_gen.traces.comparison import compare_traces
from remedy.data_gen.traces.kinds import kinds
from remedy.data_gen.traces.parse import ReadFrame, restore
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.settings import ConfigError, build

TEXT_FORMATS = [name for name, format in FORMATS.items() if not format.one_token]
HELPERS = """def g(x):
    t = 0
    for j in range(x % 3):
        t += j
    return t
def h(n):
    for q in range(2):
        n += 0
    return 0 if n < 1 else 1 + h(n - 1)
def u(x):
    if x > 1:
        raise ValueError(x)
    return x
"""


class Drawn:
    """A program with, for each line in a loop of `f`, the variables that count rounds of the loops around it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.loops = draw, 0
        self.lines = [*HELPERS.splitlines(), "def f(s):"]
        self.around: dict[int, tuple[str, ...]] = {}
        self.borders: set[int] = set()
        """Lines of a loop at which its variable is that of the round before."""
        self.ends: dict[int, int] = {}
        """The last line of each outermost loop, by its first."""
        self.block(1, ())
        self.put("    return s", ())
        if draw(st.booleans()):
            self.lines[-1] = "    return s // 0"
        self.program = Program.from_call("\n".join(self.lines), "1")

    def put(self, line: str, around: tuple[str, ...]) -> None:
        self.lines.append(line)
        self.around[len(self.lines)] = around

    def block(self, depth: int, around: tuple[str, ...]) -> None:
        pad = "    " * depth
        simple = ["set", "call", "recurse", "comprehension"]
        for _ in range(self.draw(st.integers(1, 2))):
            kind = self.draw(
                st.sampled_from([*simple, "for", "while", "forever", "if", "try"] if depth < 4 else simple)
            )
            first = len(self.lines) + 1
            if kind in ("for", "while", "forever"):
                self.loops += 1
                self.loop(kind, depth, around, f"i{self.loops}", self.draw(st.integers(0, 4)))
                if not around:
                    self.ends[first] = len(self.lines)
            elif kind in ("if", "try"):
                self.put(pad + ("if s % 2:" if kind == "if" else "try:"), around)
                if kind == "try":
                    self.put(f"{pad}    s += u({around[-1] if around else 2})", around)
                self.block(depth + 1, around)
                self.put(pad + ("else:" if kind == "if" else "except ValueError:"), around)
                self.block(depth + 1, around)
            else:
                calls = {"set": "s", "call": f"g({around[-1] if around else 2})", "recurse": "h(3)"}
                self.put(f"{pad}s += {calls.get(kind, 'sum([g(v) for v in range(3)])')}", around)

    def loop(self, kind: str, depth: int, around: tuple[str, ...], name: str, rounds: int) -> None:
        pad = "    " * depth
        if kind == "for":
            self.put(f"{pad}for {name} in range({rounds}):", around)
            self.borders.add(len(self.lines))
        else:
            self.put(f"{pad}{name} = -1", around)
            self.put(f"{pad}while {'True' if kind == 'forever' else f'{name} < {rounds - 1}'}:", around)
            self.put(f"{pad}    {name} += 1", around)
            self.borders |= {len(self.lines) - 1, len(self.lines)}
        inside = (*around, name)
        if kind == "forever":
            self.put(f"{pad}    if {name} >= {rounds}:", inside)
            self.put(f"{pad}        break", inside)
        elif self.draw(st.booleans()):
            self.put(f"{pad}    if {name} == 1: {self.draw(st.sampled_from(['break', 'continue']))}", inside)
        self.block(depth + 1, inside)


drawn = st.composite(Drawn)()
reveals = st.builds(
    RevealConfig,
    spacing=st.sampled_from([1, 3, 8, math.inf]),
    locals=st.sampled_from(["full", "diff", "changes", "one_in_turn"]),
    call_depth=st.sampled_from([None, None, 1]),
    frames=st.sampled_from(["all", "shown"]),
    loops=st.sampled_from([None, 1, 2, 3]),
)


@cache
def traced(program: str) -> Trace:
    return trace(Program(program, calls="f"))


def numbers(whole: Trace, reveal: RevealConfig) -> list[int]:
    return [frame.number for frame in render(whole, "cwm_unseeded", reveal).frames]


@settings(max_examples=60)
@given(drawn, reveals)
def test_the_written_frames_are_some_of_those_that_the_same_reveal_writes_of_all(
    one: Drawn, reveal: RevealConfig
) -> None:
    whole = traced(one.program.code)
    written = numbers(whole, reveal)
    every = numbers(whole, reveal.model_copy(update={"frames": "all", "loops": None}))
    assert written == sorted(set(written))
    assert set(written) <= set(every)
    raised = [] if whole.exception_frame is None else [whole.exception_frame]
    assert {0, len(whole.frames) - 1, *raised} <= set(written)
    frames = {frame.number: frame for frame in render(whole, "cwm_unseeded", reveal).frames}
    last = max(number for number in every if whole.frames[number].locals is not None)
    assert frames[last].locals is not None
    if reveal.frames == "shown" and reveal.loops is None:
        assert all(frame.locals is not None or frame.number in (0, *raised, every[-1]) for frame in frames.values())


@settings(max_examples=120)
@given(drawn, st.integers(1, 3))
def test_a_frame_of_a_loop_is_written_if_it_is_in_the_first_rounds_of_all_loops_around_it(
    one: Drawn, most: int
) -> None:
    whole = traced(one.program.code)
    written = set(numbers(whole, RevealConfig(loops=most)))
    last = max(number for number, frame in enumerate(whole.frames) if frame.locals is not None)
    for number, frame in enumerate(whole.frames):
        if number in (last, whole.exception_frame) or frame.locals is None:
            continue
        around = one.around.get(frame.line)
        if around is not None and frame.event is Event.LINE and ".0" not in frame.locals:
            early = all(int(frame.locals[name].text) < most for name in around)
            assert (number in written) == early or (early and frame.line in one.borders)
        elif frame.source.startswith("def h") and number in written:
            assert int(frame.locals["n"].text) > 3 - most
        elif frame.source.startswith("        t += j") and number in written:
            assert int(frame.locals["j"].text) < most


@settings(max_examples=60)
@given(drawn, st.sampled_from(["full", "diff"]), st.sampled_from(["all", "shown"]), st.integers(1, 2))
def test_the_state_after_each_outermost_loop_is_written_whatever_the_spacing(
    one: Drawn, contents: str, frames: str, most: int
) -> None:
    whole = traced(one.program.code)
    reveal = build(RevealConfig, {"spacing": math.inf, "loops": most, "frames": frames, "locals": contents})
    shown = {f.number for f in render(whole, "cwm_unseeded", reveal).frames if f.locals is not None}
    own = [
        number for number, frame in enumerate(whole.frames) if frame.event is Event.LINE and frame.line in one.around
    ]
    for before, after in pairwise(own):
        lines = whole.frames[before].line, whole.frames[after].line
        left = any(first < lines[0] <= end and not first <= lines[1] <= end for first, end in one.ends.items())
        if left and not one.around[lines[1]]:
            assert after in shown


@pytest.mark.parametrize("format", TEXT_FORMATS)
@settings(max_examples=25)
@given(one=drawn, reveal=reveals)
def test_what_is_written_is_read_back_in_full_and_judged_right(format: str, one: Drawn, reveal: RevealConfig) -> None:
    whole = traced(one.program.code)
    written = render(whole, format, reveal)
    pieces = [span.piece for span in written.spans if span.role is not Role.CONTEXT]
    read = FORMATS[format].read(pieces)
    assert read.valid
    assert read.frames == tuple(frame.as_read() for frame in written.frames)
    assert compare_traces(pieces, pieces, FORMATS[format]).prefix == 1.0
    asked = f"# reveal: {reveal.locals}, spacing {reveal.spacing:g}"
    context = spans_text([span for span in written.spans if span.role is Role.CONTEXT])
    assert (asked in context) == reveal.leaves_out
    if reveal.locals != "one_in_turn":
        true = [
            {name: value.text for name, value in (whole.frames[f.number].locals or {}).items()} for f in written.frames
        ]
        given_first = ReadFrame(Event.CALL, "", {})  # the entry has no arguments
        full = restore([given_first, *read.frames])[1:]
        assert all(frame is not None and frame.locals in (None, state) for frame, state in zip(full, true, strict=True))


@settings(max_examples=30)
@given(drawn, reveals, st.data())
def test_an_error_is_at_the_first_written_frame_that_is_wrong(
    one: Drawn, reveal: RevealConfig, data: st.DataObject
) -> None:
    whole = traced(one.program.code)
    written = render(whole, "cwm", reveal)
    pieces = [span.piece for span in written.spans if span.role is not Role.CONTEXT]
    place = data.draw(st.integers(0, len(written.frames) - 1))
    wrong = [
        f"# {span.piece}" if (span.frame, span.role) == (written.frames[place].number, Role.ACTION) else span.piece
        for span in written.spans
        if span.role is not Role.CONTEXT
    ]
    found = compare_traces(wrong, pieces, FORMATS["cwm"])
    assert (found.frames_right, found.first_wrong) == (place, Role.ACTION)


def test_the_line_below_is_that_below_the_last_written_one() -> None:
    whole = trace(Program.from_call("def f(a):\n    a += 1\n    a += 2\n    a += 3\n    return a\n", "1"))
    reveal = RevealConfig(spacing=2, frames="shown")
    written = render(whole, "cwm", reveal).frames
    assert [whole.frames[frame.number].line for frame in written] == [1, 3, 5, 8]
    assert kinds(whole, written, reveal)["lines_below"] == set()
    assert kinds(whole, render(whole, "cwm").frames, RevealConfig())["lines_below"] == {1, 3, 4, 5, 6}


BY_HAND = """def f(n):
    while True:
        n -= 1
        if n < 0: break
    for i in range(3): n += i
    for x in (
        n,
        n,
    ):
        n += 1
    while (n > 0 and
           n > 1):
        n -= 1
        if n == 2: return n
    return n
"""


def test_rounds_by_hand() -> None:
    whole = trace(Program.from_call(BY_HAND, "2"))

    def lines(most: int) -> list[int]:
        written = render(whole, "cwm", RevealConfig(loops=most)).frames[2:-1]
        return [whole.frames[frame.number].line for frame in written]

    # A header of several lines begins one round. A loop left by a return has no state after it; the last state is shown.
    first = [2, 3, 4, 5, 7, 8, 6, 10, 11, 12, 13, 14]
    assert lines(1) == [*first, 14, 14]
    assert lines(2) == [2, 3, 4, 2, 3, 4, 5, 5, 7, 8, 6, 10, 6, 10, 11, 12, 13, 14, 11, 12, 13, 14, 14]


def test_no_loop_is_found_where_there_is_none_or_the_text_is_no_program() -> None:
    for code in ("def f(", "\0", "def f(a):\n    return [x for x in a]\n"):
        whole = Trace(Program(code), trace(Program.from_call("def f(a):\n    return a\n", "1")).frames)
        assert numbers(whole, RevealConfig(loops=1)) == [*range(len(whole.frames))]


PROGRAM = {"kind": "programs", "path": "examples/functions.jsonl"}
SWAPS = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"task": PROGRAM, "reveal": {"answer_only": True, "loops": 1}}, "loops 1 does nothing with answer_only"),
        (
            {"task": PROGRAM, "reveal": {"answer_only": True, "frames": "shown"}},
            "frames shown does nothing with answer_only",
        ),
        ({"task": SWAPS, "reveal": {"loops": 1}}, "reveal.loops 1 does nothing in programs without loops"),
        (
            {"task": SWAPS, "format": "repl", "reveal": {"frames": "shown"}},
            "reveal.frames shown does nothing with spacing 1",
        ),
        ({"task": PROGRAM, "format": "symbolic", "reveal": {"loops": 1}}, "the symbolic format has no text that says"),
        (
            {"task": PROGRAM, "memory": {"frames": 2, "open_calls": True}, "reveal": {"frames": "shown", "spacing": 4}},
            "memory.open_calls: reveal.frames shown leaves out the returns",
        ),
    ],
)
def test_what_does_nothing_or_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(DataConfig, given)


def test_a_session_leaves_commands_out() -> None:
    data = build(DataConfig, {"task": SWAPS, "format": "repl", "reveal": {"frames": "shown", "spacing": 4}})
    found = example(data, "test", 0)
    assert [frame.number for frame in found.frames] == [0, 4]
    assert ">>> b, a = a, b" not in spans_text([span for span in found.spans if span.role is not Role.CONTEXT])
    assert "# reveal: full, spacing 4, frames shown\n<|frame_sep|>" in spans_text(found.spans)
