"""Generators that wait at a `yield`, or to be started, as part of what is known of an execution."""

from __future__ import annotations

from typing import NamedTuple


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
