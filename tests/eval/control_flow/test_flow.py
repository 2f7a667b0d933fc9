"""What control flow says of single programs: what is certain, what two ways allow, where it refuses to speak."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from remedy.data_gen.execution.program import Event, Program, ProgramError
from remedy.eval.control_flow import END, ControlFlow, ControlFlowError, Exceptions, Step, Walk
from remedy.settings import ConfigError

CALL, LINE, RETURN, EXCEPTION = Event.CALL, Event.LINE, Event.RETURN, Event.EXCEPTION


def program(body: str, before: str = "") -> Program:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return Program(f"{before}def main():  # << START_OF_TRACE\n{lines}")


def walked(flow: ControlFlow, *steps: Step, exceptions: Exceptions = "caught") -> Walk:
    """After the entry's call and these frames."""
    walk: Walk | None = flow.start(exceptions)
    assert walk is not None
    for step in (*walk.allowed(), *steps):
        assert walk is not None
        assert step in walk.allowed()
        walk = walk.advance({step})
    assert walk is not None
    return walk


BRANCH = "x = 1\nif x:\n    y = 2\nelse:\n    y = 3\nreturn y"
HANDLED = "try:\n    x = int('a')\nexcept ValueError:\n    x = 0\nreturn x"
ANY = "return any(i for i in [0, 1])"
ALLOWED: list[tuple[str, str, str]] = [
    (BRANCH, "l2 l3", "l4 l6"),
    (BRANCH, "l2 l3 l4", "l7"),
    (BRANCH, "l2 l3 l6", "l7"),
    ("return f(f(1))", "l2", "r2"),  # of something unknown that is no code of the program
    (HANDLED, "l2 l3", "e3 l6"),
    (HANDLED, "l2 l3 e3", "l4"),
    ("x = int('a')\nreturn x", "l2", "l3"),  # exceptions that nothing catches are for programs that do not return
    ("raise ValueError", "l2", "e2"),
    ("raise ValueError", "l2 e2", "r2"),
    (ANY, "l2 c2 l2 r2 c2", "l2 e2"),  # a generator that is started goes on, or is closed
    ("x = 1\nreturn x", "l2", "l3"),
]
"""What may follow frames: events by their first letters."""


def steps(text: str) -> list[Step]:
    return [Step({"c": CALL, "l": LINE, "r": RETURN, "e": EXCEPTION}[one[0]], int(one[1:])) for one in text.split()]


@pytest.mark.parametrize(("body", "before", "allowed"), ALLOWED)
def test_what_may_follow(body: str, before: str, allowed: str) -> None:
    assert walked(ControlFlow(program(body)), *steps(before)).allowed() == set(steps(allowed))


def test_lines_with_one_text_are_kept_apart_until_what_follows_tells() -> None:
    flow = ControlFlow(program("x = 1\nif x:\n    x += 1\n    y = 2\nelse:\n    x += 1\n    z = 3"))
    walk = walked(flow, *steps("l2 l3"))
    assert walk.allowed() == {Step(LINE, 4), Step(LINE, 7)}
    after = walk.after(LINE, "        x += 1\n")
    assert after is not None
    assert after.allowed() == {Step(LINE, 5), Step(LINE, 8)}
    assert walk.after(LINE, "    x = 1\n") is None
    assert walk.allowed() == {Step(LINE, 4), Step(LINE, 7)}


def test_a_call_of_a_known_function_is_the_only_way() -> None:
    known = ControlFlow(program("return f(f(1))", before="def f(x):\n    return x\n"))
    frames = steps("l4 c1 l2 r2 c1 l2 r2 r4")
    for number, step in enumerate([*frames, END]):
        assert walked(known, *frames[:number]).allowed() == {step}


@pytest.mark.parametrize(("module", "raises"), [("math", False), ("signal", True), ("no_such_module", True)])
def test_what_is_imported_may_raise_where_a_loop_jumps_back_unless_it_is_known(module: str, raises: bool) -> None:
    """As the handler of a signal does."""
    flow = ControlFlow(program(f"import {module}\nwhile True:\n    pass"))
    walk = walked(flow, *steps("l2 l3 l4 l3"), exceptions="all")
    assert (Step(EXCEPTION, 3) in walk.allowed()) == raises


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
    assert other.codes == mine.codes
    with pytest.raises(ProgramError, match="does not compile"):
        ControlFlow(Program("def main(:  # << START_OF_TRACE\n"), python=str(link))


def test_interpreters_with_other_events_are_refused() -> None:
    with pytest.raises(ControlFlowError, match=r"CPython 3\.11.*this is cpython 3\.12"):
        ControlFlow(program("pass"), python=interpreter("3.12"))
    with pytest.raises(ConfigError, match="no interpreter"):
        ControlFlow(program("pass"), python="python9.99")
