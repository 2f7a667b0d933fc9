"""All that is promised of one program's trace, tried on it: what is not so is said in a line each."""

from __future__ import annotations

import contextlib
import io
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from remedy.data_gen.execution.program import Frame, Program, ProgramError, Trace, TraceLimits
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.rewrites import REWRITES, rewrite_program
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.parse import ReadTrace
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import ENCODINGS
from tests.data_gen.execution.reference_tracer import Unreadable, steps
from tests.eval.control_flow.following import Counted, follow

_OF_A_RUN = re.compile(r"\d{13,}|(?<=Task-)\d+|\d+\.\d{4,}(?:e-?\d+)?")


@dataclass
class Checked:
    """Result of a check. `outcome`: `ok`, `raised`, or why there is no trace."""

    outcome: str = "ok"
    frames: int = 0
    followed: int = 0
    """Frames that were held against the control flow."""
    problems: list[str] = field(default_factory=list)


def check(program: Program, most_frames: int = 20_000, most_followed: int = 2_000) -> Checked:
    """Trace a program in this process, and try on the trace what is promised of every one.

    `most_followed`: frames, from the first on, that are held against the control flow.
    """
    found = Checked()
    with _quiet():
        try:
            traced = trace(program, TraceLimits(most_frames))
        except ProgramError as error:
            found.outcome = error.kind
            return found
        found.outcome = "raised" if traced.raised else "ok"
        found.frames = len(traced.frames)
        found.problems += _formats(traced)
        try:
            again = [plain(_state(frame)) for frame in trace(program, TraceLimits(most_frames), again=True).frames]
        except ProgramError:
            again = []
        if again == [plain(_state(frame)) for frame in traced.frames]:
            found.problems += [*_second_tracer(traced), *_rewrites(traced)]
        else:
            found.outcome = "unstable"
    found.problems += _followed(traced, most_followed, found)
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _second_tracer(traced: Trace) -> Iterator[str]:
    """Say if a tracer that was written apart finds the same events, lines and values."""
    before = random.getstate()
    random.seed(0)
    try:
        expected = [(event, line, source, plain(state)) for event, line, source, state in steps(traced.program.code)]
    except Unreadable:
        yield "tracer: the second has no trace"
        return
    finally:
        random.setstate(before)
    mine = [(one.event.value, one.line, one.source, plain(_state(one))) for one in traced.frames]
    for number, (one, other) in enumerate(zip(mine, expected)):
        if one != other:
            yield f"tracer: frame {number}: {one}, the second has {other}"
            return
    if len(mine) != len(expected):
        yield f"tracer: {len(mine)} frames, the second has {len(expected)}"


def _state(frame: Frame) -> Any:
    return tuple(frame.value) if frame.value else [(name, *value) for name, value in (frame.locals or {}).items()]


def plain(state: Any) -> str:
    """Return a state without what is of a run: numbers as long as an `id`, and times."""
    return _OF_A_RUN.sub("N", repr(state))


def _followed(traced: Trace, most: int, found: Checked) -> Iterator[str]:
    """Say if control flow allows every frame, and the end.

    A program that returned is held to what is allowed of such, which of all others is allowed too.
    """
    counted = Counted()
    try:
        follow(traced, "all" if traced.raised else "caught", most, counted)
    except AssertionError as error:
        yield f"control flow: {error}"
    found.followed = counted.frames


def _formats(traced: Trace) -> Iterator[str]:
    """Say if what is written is read back, in every format and encoding."""
    for name, form in FORMATS.items():
        if form.one_token or (form.session and any("\n" in f.source[:-1] for f in traced.frames)):
            continue
        for encoding in ENCODINGS if name == "cwm" else ("plain",):
            for reveal in (RevealConfig(locals="diff"), RevealConfig(spacing=3)):
                written = render(traced, name, reveal, string_encoding=encoding)
                read = form.read(span.piece for span in written.spans if span.role is not Role.CONTEXT)
                if read != ReadTrace(tuple(frame.as_read(encoding) for frame in written.frames), "", True):
                    yield f"{name}, {encoding}: what is written is read as something else: {read.problem}"
                    break


def _rewrites(traced: Trace) -> Iterator[str]:
    """Say if rewritten programs come to the same result, or exception."""
    for kinds in (*((kind,) for kind in REWRITES), tuple(REWRITES)):
        rewritten = rewrite_program(traced.program, kinds)
        if rewritten is traced.program:
            continue
        try:
            again = trace(rewritten, TraceLimits(200_000), depth=0)
        except ProgramError as error:
            yield f"{'+'.join(kinds)}: {error}"
            continue
        if plain(_end(again)) != plain(_end(traced)):
            yield f"{'+'.join(kinds)}: {_end(again)}, not {_end(traced)}"


def _end(traced: Trace) -> Any:
    at = traced.exception_frame
    return traced.result if at is None else traced.frames[at].value
