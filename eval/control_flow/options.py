"""Configurations of the automaton, a point of a frame and the generators that wait, and the options of going on from one."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from remedy.data_gen.execution.program import Event


class Step(NamedTuple):
    """One frame's event and physical line, counted from 1; the end of the trace has neither."""

    event: Event | None
    line: int


END = Step(None, 0)


class Point(Enum):
    """Moment in a frame before an instruction."""

    RUN = 0
    """It is about to run."""
    AGAIN = 1
    """It is about to run again: a loop's next round."""
    RETURNED = 2
    """What it called came back by returning."""
    YIELDED = 3
    RAISED = 4
    """What it called came back by raising."""
    CLOSED = 5
    """It has closed what it read."""
    FAILED = 6
    """It has closed what it read, and raises."""
    UNWIND = 7
    """It raised, and that was shown."""
    THROWN = 8
    """It waits for a value and is given an exception."""
    BEFORE = 9
    """The entry is about to be called."""
    END = 10
    """The entry has returned."""

    __hash__ = object.__hash__


class Node(NamedTuple):
    """A point of a frame of a code object."""

    code: int
    at: int
    point: Point


class Waiter(NamedTuple):
    """Generators of one code object that wait at one place."""

    code: int
    at: int
    free: bool
    """Whether nothing that is followed holds it, so that it may be closed at any time."""
    many: bool
    """Whether there may be several, so that one that goes on may leave another."""


Waiting = tuple[Waiter, ...]
"""Sorted, one for each code and place."""


def added(waiting: Waiting, code: int, at: int, free: bool) -> Waiting:
    """With one more."""
    before = [one for one in waiting if (one.code, one.at) == (code, at)]
    new = Waiter(code, at, free or any(one.free for one in before), bool(before))
    return tuple(sorted([*(one for one in waiting if one not in before), new]))


def removed(waiting: Waiting, waiter: Waiter) -> Waiting:
    """With one less."""
    return waiting if waiter.many else tuple(one for one in waiting if one[:2] != waiter[:2])


def freed(waiting: Waiting) -> Waiting:
    """After an exception, whose traceback holds all the frames that it left, and their generators, until it goes."""
    return tuple(one._replace(free=True) for one in waiting) if waiting else waiting


def joined(several: list[Waiting]) -> Waiting:
    """Return what allows all that any of several does."""
    flags: dict[tuple[int, int], bool] = {}
    for one in (one for waiting in several for one in waiting):
        flags[one.code, one.at] = flags.get((one.code, one.at), False) or one.free
    return tuple(sorted(Waiter(code, at, free, True) for (code, at), free in flags.items()))


class Place(NamedTuple):
    """Place of the frame that runs, and the generators that wait."""

    node: Node
    waiting: Waiting = ()


class Option(NamedTuple):
    """One way to go on, by one event."""

    step: Step
    waiting: Waiting
    """Which generators wait then."""
    nodes: tuple[Node, ...] = ()
    """Where what runs next may go on: this frame, or what it calls or resumes; empty where the frame is left."""
    back: Point | None = None
    """How it is left."""
    at: int | None = None
    """The instruction that this frame waits at, if it calls or resumes another."""
    here: Node | None = None
    """Where it goes on after that, if it does not depend on how the other is left."""
    caught: bool = True
    """Whether, if an exception is or will be raised, it may end in this frame."""
