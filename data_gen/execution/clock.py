"""Detection of clock reads, which two runs within a second may not show."""

from __future__ import annotations

import contextlib
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

_ALWAYS = [
    getattr(time, f"{name}{unit}")
    for name in ("time", "monotonic", "perf_counter", "process_time")
    for unit in ("", "_ns")
]
_WITHOUT = {time.gmtime: 0, time.localtime: 0, time.ctime: 0, time.asctime: 0, time.strftime: 1}
"""Functions that read the clock when given at most so many arguments."""
_OF_DATES = ("now", "today", "utcnow")


@contextlib.contextmanager
def clock_watched(file: str) -> Iterator[list[int]]:
    """Collect the lines of a file, not of its libraries, that read the clock."""
    lines: list[int] = []

    def look(frame: types.FrameType, event: str, called: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename == file and _tells_time(called, frame):
            lines.append(frame.f_lineno)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield lines
    finally:
        sys.setprofile(before)


def _tells_time(called: Any, frame: types.FrameType) -> bool:
    if called in _ALWAYS:
        return True
    if called in _WITHOUT:
        argument_count = frame.f_code.co_code[frame.f_lasti + 1]  # the argument of the instruction that calls
        return argument_count <= _WITHOUT[called]
    kind = called.__self__
    if called.__name__ not in _OF_DATES or not isinstance(kind, type):
        return False
    return any(base.__module__ == "datetime" for base in kind.__mro__)
