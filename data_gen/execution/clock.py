"""Notices that a program asks for the time, which two runs within one second, or one day, may show alike.

The sandbox's server imports this module: it stays light.
"""

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
"""What tells the time where it is given no more arguments than these."""
_OF_DATES = ("now", "today", "utcnow")


@contextlib.contextmanager
def clock_watched(file: str) -> Iterator[list[int]]:
    """The lines of code of that file, as they are run, that ask for the time of day. What its libraries ask for is their own affair."""
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
        given = frame.f_code.co_code[frame.f_lasti + 1]  # the argument of the instruction that calls
        return given <= _WITHOUT[called]
    kind = called.__self__
    if called.__name__ not in _OF_DATES or not isinstance(kind, type):
        return False
    return any(one.__module__ == "datetime" for one in kind.__mro__)
