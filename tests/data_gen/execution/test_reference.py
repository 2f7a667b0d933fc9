"""The frames are those that a second tracer, written apart, finds, over random programs that use much of Python."""

import contextlib
import gc
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.recorder import Recorder
from remedy.data_gen.execution.tracer import trace
from tests.data_gen.execution.library_programs import library_programs
from tests.data_gen.execution.random_programs import Writer
from tests.data_gen.execution.reference_tracer import Unreadable, steps


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets records be sealed and doubted in this process; an audit hook would stay in it. A `__del__` in a cycle runs whenever the
    collector happens to, which no two runs share, so that it has to wait."""
    monkeypatch.setattr(Recorder, "_refuse_other_tracers", lambda self: None)
    gc.disable()
    yield
    gc.enable()


def compared(program: Program) -> str:
    """`ok` or `raised`, with frames that are the reference's; or the outcome, which the reference must agree with."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coroutines that are never awaited
        try:
            expected = steps(program.code)
        except SyntaxError:
            expected = "syntax"
        except Unreadable:
            expected = "repr"
        found = outcome(program)
    if isinstance(found, ProgramError):
        assert found.kind == expected, f"{found}\n{program.code}"
        return found.kind
    assert plain(found) == without_ids(expected), f"{program.name}\n{program.code}"
    return "raised" if found.raised else "ok"


def outcome(program: Program) -> Trace | ProgramError:
    try:
        return trace(program, untrusted=True)
    except ProgramError as error:
        return error


def plain(found: Trace) -> Any:
    return without_ids(
        [
            (
                f.event.value,
                f.line,
                f.source,
                tuple(f.value) if f.value else [(n, *v) for n, v in (f.locals or {}).items()],
            )
            for f in found.frames
        ]
    )


def without_ids(written: Any) -> Any:
    """A program that shows `id(x)` shows another number in each run."""
    return re.sub(r"\d{13,}", "ID", repr(written))


def outcomes(programs: Iterable[Program]) -> Counter[str]:
    found: Counter[str] = Counter()
    for number, program in enumerate(programs):
        found[compared(program)] += 1
        if number % 200 == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of coroutines that are never awaited
                gc.collect()
    return found


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.weekly)])
def test_frames_of_random_programs_are_the_references(count: int, own_process: None) -> None:
    found = outcomes(Writer(number).program() for number in range(count))
    assert set(found) <= {"ok", "raised", "syntax", "repr"}
    assert found["ok"] > count * 2 // 5
    assert found["raised"] > count // 5
    assert found["ok"] + found["raised"] > count * 97 // 100


@pytest.mark.slow
def test_frames_of_the_standard_library_are_the_references(own_process: None) -> None:
    found = outcomes(library_programs())
    assert found["ok"] > 60
    assert set(found) <= {"ok", "raised", "repr"}
