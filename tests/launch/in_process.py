"""The command line as a function: its arguments to its exit status, output and errors, without starting an interpreter for each."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from remedy.launch import cli


class TooSlow(BaseException):
    """A command that did not end in its time."""


class Ended(NamedTuple):
    """How a command ended. `status` is None, and `errors` the traceback, where an exception came out of it."""

    status: int | None
    output: str
    errors: str


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TooSlow in the main thread after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def remedy(arguments: Sequence[object], seconds: float = 30) -> Ended:
    """Run `remedy` with arguments as a shell would give them; its streams are encoded as a terminal's are."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)
    errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    argv, sys.argv = sys.argv, ["remedy", *map(str, arguments)]
    status: int | None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), limited(seconds):
            try:
                cli.main()
                status = 0
            except SystemExit as leaving:
                status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            except BaseException:
                status = None
                traceback.print_exc()
    finally:
        sys.argv = argv
    return Ended(status, *(_text(stream) for stream in (output, errors)))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
