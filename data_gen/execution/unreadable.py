"""Values whose own repr raises: their replacement, or the program's outcome."""

from __future__ import annotations

# Without the wrappers of `signal`, which make an enum at every call; this runs for every program.
import _signal  # type: ignore[import-not-found]
import sys
import types
from operator import is_
from typing import Any

from remedy.data_gen.execution.describe import describe_long, describe_object, type_name
from remedy.data_gen.execution.program import Value

INTERRUPTED = "was interrupted by a signal handler of its own while a frame was recorded"
# Bound before any program runs, which may replace what it finds in a module.
_exact_type, _is_subclass = type, issubclass


class Unreadable:
    """Unreadable values of one program.

    `refuses`: the first one ends the program.
    """

    def __init__(self, refuses: bool) -> None:
        self.count = 0
        """Number of values written as `object` would."""
        self._refuses = refuses
        self._handlers: list[Any] = []

    def start(self) -> None:
        self._handlers = _signal_handlers()

    def instead(self, value: Any, error: Exception, frame: types.FrameType) -> Value:
        """Replace a value whose repr raised `error`; raise it to end the program."""
        error_type = _exact_type(error)
        if error_type is ValueError:  # perhaps of an int with more digits than Python writes
            try:
                return describe_long(value)
            except Exception:
                pass
        lacks_room = _is_subclass(error_type, MemoryError) or (
            _is_subclass(error_type, RecursionError) and _is_deep(frame)
        )
        if lacks_room or self._refuses or self.is_interrupted():
            raise error
        self.count += 1
        return describe_object(value)

    def why(self, error: BaseException, source: str) -> tuple[str, str]:
        """Return the outcome and message of an error that ends the program."""
        error_type = _exact_type(error)
        if _is_subclass(error_type, RecursionError):
            return "recursion", f"recursed too deeply to be traced, at `{source}`"
        if _is_subclass(error_type, MemoryError):
            return "memory", f"ran out of memory, at `{source}`"
        if self.is_interrupted():
            return "killed", INTERRUPTED
        return "repr", f"the repr of a value raised {type_name(error_type)}, at `{source}`"

    def is_interrupted(self) -> bool:
        """Say if the program changed a signal handler."""
        return not all(map(is_, _signal_handlers(), self._handlers))


def _is_deep(frame: types.FrameType | None) -> bool:
    """Say if over a quarter of the stack is in use.

    With less, the same repr may not fail.
    """
    room = sys.getrecursionlimit() // 4
    while frame is not None and room:
        frame, room = frame.f_back, room - 1
    return not room


def _signal_handlers() -> list[Any]:
    return [_signal.getsignal(number) for number in range(1, _signal.NSIG)]
