"""The operation of a line, and the line that an error is attributed to."""

import pytest

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.eval.scoring.common import followed_another
from remedy.eval.scoring.operations import causing_frame, operation_of
from tests.eval.scoring.test_frames import CODE


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("x = s.split(',')", "string method"),
        ("x = xs.count('a')", "other"),
        ("x = f'{s}'", "string method"),
        ("x = s[0] + 1", "index or slice"),
        ("for c in s.split(): pass", "string method"),
        ("while xs: xs.pop()", "loop or counter"),
        ("n += 1", "loop or counter"),
        ("n += n", "arithmetic"),
        ("x = [c for c in xs]", "loop or counter"),
        ("return", "other"),
    ],
)
def test_operations_of_lines(line: str, operation: str) -> None:
    program = Program(f"def main():  # << START_OF_TRACE\n    s, xs, n = 'a,b', [1], 3\n    {line}\n")
    state = trace(program).frames[2].locals
    assert operation_of(program, f"    {line}\n", state) == operation


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("    x = [\n", "index or slice"),
        ("        s[0]\n", "index or slice"),  # a line within a statement counts as all of it
        ("        for _ in xs\n", "index or slice"),
        ("    elif s.split(\n", "string method"),
        ("        case 1 if s[0]:\n", "index or slice"),
        ("    nowhere\n", "other"),
    ],
)
def test_operations_of_lines_of_longer_statements(line: str, operation: str) -> None:
    body = """def main():  # << START_OF_TRACE
    s, xs, n = 'a,b', [1], 3
    x = [
        s[0]
        for _ in xs
    ]
    if n < 1:
        pass
    elif s.split(
        ','
    ):
        n += 1
    match n:
        case 1 if s[0]:
            pass
"""
    program = Program(body)
    assert operation_of(program, line, trace(program).frames[2].locals) == operation


def test_a_wrong_state_after_a_call_is_attributed_to_the_line_that_called() -> None:
    traced = trace(Program.from_call(CODE, "'ab', 1"))
    sources = [frame.source.strip() for frame in traced.frames]
    after = next(i for i, s in enumerate(sources) if s == "s = s[1:]")
    assert sources[causing_frame(traced.frames, after, False)] == "parts.append(g(s))"
    inside = next(i for i, s in enumerate(sources) if s == "def g(t):")
    assert sources[causing_frame(traced.frames, inside, False)] == "parts.append(g(s))"
    assert causing_frame(traced.frames, after, True) == after


def test_a_line_may_follow_another_occurrence_of_the_line_before_it() -> None:
    lines = ["a", "b", "a", "c"]
    found = {(at, one): followed_another(lines, at, one) for at in (0, 1, 3, 9) for one in "abc"}
    assert [place for place, followed in found.items() if followed] == [(1, "c"), (3, "b")]
