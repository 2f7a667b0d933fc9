"""What control flow says of single programs: what is certain, what two ways allow, where it refuses to speak."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from remedy.data_gen.execution.program import Event, Program, ProgramError
from remedy.eval.control_flow import END, ControlFlow, ControlFlowError, Step, Walk
from remedy.settings import ConfigError

CALL, LINE, RETURN, EXCEPTION = Event.CALL, Event.LINE, Event.RETURN, Event.EXCEPTION


def program(body: str, before: str = "") -> Program:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return Program(f"{before}def main():  # << START_OF_TRACE\n{lines}")


def walked(flow: ControlFlow, *steps: tuple[Event, int], exceptions: str = "caught") -> Walk:
    """After the entry's call and these frames."""
    walk: Walk | None = flow.start("all" if exceptions == "all" else "caught")
    for step in ((CALL, 1), *steps):
        assert walk is not None
        walk = walk.advance([Step(*step)])
    assert walk is not None
    return walk


def test_a_branch_has_two_ways_and_each_its_own_next_line() -> None:
    flow = ControlFlow(program("x = 1\nif x:\n    y = 2\nelse:\n    y = 3\nreturn y"))
    at_test = walked(flow, (LINE, 2), (LINE, 3))
    assert at_test.allowed() == {Step(LINE, 4), Step(LINE, 6)}
    for line in (4, 6):
        after = at_test.advance([Step(LINE, line)])
        assert after is not None
        assert after.allowed() == {Step(LINE, 7)}


def test_lines_with_one_text_are_kept_apart_until_what_follows_tells() -> None:
    flow = ControlFlow(program("x = 1\nif x:\n    x += 1\n    y = 2\nelse:\n    x += 1\n    z = 3"))
    walk = walked(flow, (LINE, 2), (LINE, 3))
    candidates = flow.candidates(walk)
    assert candidates == {(LINE, "        x += 1\n"): {Step(LINE, 4), Step(LINE, 7)}}
    after = flow.advance(walk, LINE, "        x += 1\n")
    assert after is not None
    assert after.allowed() == {Step(LINE, 5), Step(LINE, 8)}


def test_a_call_of_a_known_function_is_the_only_way() -> None:
    flow = ControlFlow(program("return f(f(1))", before=""))
    assert walked(flow, (LINE, 2)).allowed() == {Step(RETURN, 2)}  # of something unknown that is no code of the program
    known = ControlFlow(Program("def f(x):\n    return x\ndef main():  # << START_OF_TRACE\n    return f(f(1))\n"))
    walk: Walk | None = known.start("caught")
    once = [Step(CALL, 1), Step(LINE, 2), Step(RETURN, 2)]
    for step in [Step(CALL, 3), Step(LINE, 4), *once, *once, Step(RETURN, 4), END]:
        assert walk is not None
        assert walk.allowed() == {step}
        walk = walk.advance([step])


def test_an_exception_goes_to_its_handler() -> None:
    flow = ControlFlow(program("try:\n    x = int('a')\nexcept ValueError:\n    x = 0\nreturn x"))
    walk = walked(flow, (LINE, 2), (LINE, 3))
    assert walk.allowed() == {Step(EXCEPTION, 3), Step(LINE, 6)}
    after = walk.advance([Step(EXCEPTION, 3)])
    assert after is not None
    assert after.allowed() == {Step(LINE, 4)}


def test_exceptions_that_nothing_catches_are_for_programs_that_do_not_return() -> None:
    flow = ControlFlow(program("x = int('a')\nreturn x"))
    assert walked(flow, (LINE, 2)).allowed() == {Step(LINE, 3)}
    assert walked(flow, (LINE, 2), exceptions="all").allowed() == {Step(LINE, 3), Step(EXCEPTION, 2)}
    raising = ControlFlow(program("raise ValueError"))
    assert walked(raising, (LINE, 2)).allowed() == {Step(EXCEPTION, 2)}
    assert walked(raising, (LINE, 2), (EXCEPTION, 2)).allowed() == {Step(RETURN, 2)}


@pytest.mark.parametrize(("module", "raises"), [("math", False), ("signal", True), ("no_such_module", True)])
def test_what_is_imported_may_raise_where_a_loop_jumps_back_unless_it_is_known(module: str, raises: bool) -> None:
    """As the handler of a signal does."""
    flow = ControlFlow(program(f"import {module}\nwhile True:\n    pass"))
    walk = walked(flow, (LINE, 2), (LINE, 3), (LINE, 4), (LINE, 3), exceptions="all")
    assert (Step(EXCEPTION, 3) in walk.allowed()) == raises


def test_a_reader_of_a_generator_starts_it_and_reads_on_or_closes_it() -> None:
    walk = walked(ControlFlow(program("return any(i for i in [0, 1])")), (LINE, 2))
    for step in [Step(CALL, 2), Step(LINE, 2), Step(RETURN, 2), Step(CALL, 2)]:
        assert step in walk.allowed()
        after = walk.advance([step])
        assert after is not None
        walk = after
    assert walk.allowed() == {Step(LINE, 2), Step(EXCEPTION, 2)}  # it goes on, or is closed


def test_what_cannot_follow_ends_the_walk_and_the_walk_before_stays_as_it_was() -> None:
    flow = ControlFlow(program("x = 1\nreturn x"))
    walk = walked(flow, (LINE, 2))
    assert flow.advance(walk, LINE, "    x = 1\n") is None
    assert flow.advance(walk, RETURN, "    return x\n") is None
    assert walk.allowed() == {Step(LINE, 3)}


@pytest.mark.parametrize(
    ("code", "kind"), [("def main(:  # << START_OF_TRACE\n", "syntax"), ("def main():\n    pass\n", "entry")]
)
def test_programs_without_an_entry_or_with_errors_are_refused(code: str, kind: str) -> None:
    with pytest.raises(ProgramError) as refused:
        ControlFlow(Program(code, "mine"))
    assert refused.value.kind == kind
    assert "mine" in str(refused.value)


def test_nothing_of_a_program_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    ControlFlow(program("pass", before=f"open({str(mark)!r}, 'w')\n"))
    assert not mark.exists()


def interpreter(version: str) -> str:
    found = shutil.which(f"python{version}")
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
    if not found or not works:
        pytest.skip(f"needs python{version}")
    return found


def test_it_is_read_by_the_interpreter_that_runs_programs(tmp_path: Path) -> None:
    one = program("x = [i for i in range(3)]\nreturn f(x)", before="def f(x):\n    yield x\n")
    mine = ControlFlow(one)
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    other = ControlFlow(one, python=str(link))
    assert other.moves.codes == mine.moves.codes
    with pytest.raises(ProgramError, match="does not compile"):
        ControlFlow(Program("def main(:  # << START_OF_TRACE\n"), python=str(link))


def test_interpreters_with_other_events_are_refused() -> None:
    with pytest.raises(ControlFlowError, match=r"CPython 3\.11.*this is cpython 3\.12"):
        ControlFlow(program("pass"), python=interpreter("3.12"))
    with pytest.raises(ConfigError, match="no interpreter"):
        ControlFlow(program("pass"), python="python9.99")
