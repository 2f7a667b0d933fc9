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


def test_operations_of_lines_of_longer_statements() -> None:
    """A line within a statement counts as all of it."""
    lines = [
        "    x = [\n",
        "        s[0]\n",
        "        for _ in xs\n",
        "    ]\n",
        "    elif s.split(\n",
        "        ','\n",
    ]
    before = "def main():  # << START_OF_TRACE\n    s, xs, n = 'a,b', [1], 3\n"
    program = Program(f"{before}{''.join(lines[:4])}    if n < 1:\n        pass\n{''.join(lines[4:])}    ): pass\n")
    state = trace(program).frames[2].locals
    said = [operation_of(program, line, state) for line in [*lines, "    nowhere\n"]]
    assert said == [*["index or slice"] * 3, "other", *["string method"] * 2, "other"]


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
