"""The operation of a line, and the line that an error is attributed to."""

import pytest

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.eval.scoring.operations import Operations, causing_frame
from tests.eval.scoring.test_frames import CODE


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("x = s.split(',')", "string method"),
        ("x = ','.join(s)", "string method"),
        ("x = s.count('a')", "string method"),
        ("x = xs.count('a')", "other"),
        ("x = f'{s}'", "string method"),
        ("x = s[0] + 1", "index or slice"),
        ("for c in s: pass", "loop or counter"),
        ("for c in s.split(): pass", "string method"),
        ("while xs: xs.pop()", "loop or counter"),
        ("n += 1", "loop or counter"),
        ("n += n", "arithmetic"),
        ("n = n // 2", "arithmetic"),
        ("x = [c for c in xs]", "loop or counter"),
        ("if n % 2: pass", "arithmetic"),
        ("if n: x = s[0]", "index or slice"),
        ("x = len(xs)", "other"),
        ("return", "other"),
    ],
)
def test_operations_of_lines(line: str, operation: str) -> None:
    program = Program(f"def main():  # << START_OF_TRACE\n    s, xs, n = 'a,b', [1], 3\n    {line}\n")
    state = trace(program).frames[2].locals
    assert Operations(program).of(f"    {line}\n", state) == operation


def test_a_wrong_state_after_a_call_is_attributed_to_the_line_that_called() -> None:
    traced = trace(Program.from_call(CODE, "'ab', 1"))
    sources = [frame.source.strip() for frame in traced.frames]
    after = next(i for i, s in enumerate(sources) if s == "s = s[1:]")
    assert sources[causing_frame(traced.frames, after, False)] == "parts.append(g(s))"
    inside = next(i for i, s in enumerate(sources) if s == "def g(t):")
    assert sources[causing_frame(traced.frames, inside, False)] == "parts.append(g(s))"
    assert causing_frame(traced.frames, after, True) == after
