"""Which line of its program each frame is at: a trace gives texts, and several lines may have one text."""

from __future__ import annotations

import types
from collections.abc import Sequence
from functools import lru_cache

from remedy.data_gen.execution.line_order import IS_KNOWN, LineOrder
from remedy.data_gen.execution.program import Event, Frame, Program, Trace

_STAYS, _BREAKS = 1, 1000
"""What it costs a path to stay at its line, as only loops on one line do, and to go where no bytecode leads."""


def line_numbers(trace: Trace) -> list[int]:
    """The number of every frame's line, counted from 1.

    Where several lines have a frame's text, those are chosen of which one can run after the other, as the bytecode says; of
    paths that no text tells apart, the first.
    """
    places = _places(trace.program)
    following = _following(trace.program)
    found = [0] * len(trace.frames)
    for call in _calls(trace.frames):
        options = [places.get(trace.frames[number].source, (0,)) for number in call]
        ends = [trace.frames[number].event in (Event.RETURN, Event.EXCEPTION) for number in call]
        for frame, line in zip(call, _path(options, ends, following)):
            found[frame] = line
    return found


def _calls(frames: Sequence[Frame]) -> list[list[int]]:
    """The numbers of the frames of every call, in order."""
    done: list[list[int]] = []
    active: list[list[int]] = []
    for number, frame in enumerate(frames):
        if frame.event is Event.CALL or not active:
            active.append([])
        active[-1].append(number)
        if frame.event is Event.RETURN:
            done.append(active.pop())
    return done + active


def _path(candidates: Sequence[tuple[int, ...]], ends: Sequence[bool], following: _Following) -> list[int]:
    """The cheapest path through one candidate of each frame of a call. `ends`: the frame is a return or exception, which comes
    from the line that ran."""
    costs = [dict.fromkeys(candidates[0], 0)]
    before: list[dict[int, int]] = [{}]
    for options, stays in zip(candidates[1:], ends[1:]):
        cost = following.stay if stays else following.go
        step: dict[int, int] = {}
        came: dict[int, int] = {}
        for line in options:
            came[line] = min(costs[-1], key=lambda other: costs[-1][other] + cost(other, line))
            step[line] = costs[-1][came[line]] + cost(came[line], line)
        costs.append(step)
        before.append(came)
    line = min(costs[-1], key=lambda other: costs[-1][other])
    path = [line]
    for came in reversed(before[1:]):
        line = came[line]
        path.append(line)
    return path[::-1]


class _Following:
    """Which line can run after which."""

    def __init__(self, program: Program) -> None:
        self._orders: list[tuple[set[int], LineOrder]] = []
        if not IS_KNOWN:
            return
        try:
            waiting = [compile(program.code, "<program>", "exec", dont_inherit=True)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for code in waiting:
            waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
            lines = {line for _, _, line in code.co_lines() if line is not None}
            self._orders.append((lines, LineOrder(code)))

    def stay(self, line: int, following: int) -> int:
        """What it costs to be at one line after another that did not end."""
        return 0 if line == following else _BREAKS

    def go(self, line: int, following: int) -> int:
        """What it costs to go from one line to another."""
        if line == following:
            return _STAYS
        if not self._orders:  # another interpreter's bytecode: the nearest line below, then above
            return following - line if following > line else _BREAKS + line - following
        both = (order for lines, order in self._orders if line in lines and following in lines)
        return 0 if any(order.allows(line, following) for order in both) else _BREAKS


@lru_cache(maxsize=64)
def _cached(code: str) -> tuple[dict[str, tuple[int, ...]], _Following]:
    program = Program(code)
    places: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(program.physical_lines(), start=1):
        places[line] = (*places.get(line, ()), number)
    return places, _Following(program)


def _places(program: Program) -> dict[str, tuple[int, ...]]:
    return _cached(program.code)[0]


def _following(program: Program) -> _Following:
    return _cached(program.code)[1]
