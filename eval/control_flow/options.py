"""The ways on from one configuration of the automaton: a point of a frame, and the generators that wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.moves import Act, Move, Moves, Node, Point


class Step(NamedTuple):
    """One frame's event and physical line, counted from 1; the end of the trace has neither."""

    event: Event | None
    line: int


END = Step(None, 0)


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
    """One way to go on: a move, and for a generator that goes on or is closed, which."""

    step: Step
    move: Move
    waiter: Waiter | None
    here: Node | None
    """Where this frame goes on after a call if that is settled; else it depends on how what is called is left."""
    waiting: Waiting
    """Which generators wait then."""


class Options:
    """The options of a program's configurations, and where they lead."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves
        self._found: dict[tuple[Place, bool], tuple[Option, ...]] = {}

    def of(self, place: Place, loose: bool) -> tuple[Option, ...]:
        """The options there. `loose`: also exceptions that this frame does not catch."""
        found = self._found.get((place, loose))
        if found is None:
            found = self._found[place, loose] = tuple(self._made(*place, loose))
        return found

    def _made(self, node: Node, waiting: Waiting, loose: bool) -> Iterator[Option]:
        if node.point is Point.END:
            yield Option(END, Move(Act.GO, Event.RETURN, 0, node), None, None, waiting)
            return
        if node.point is Point.BEFORE:
            code = self.moves.codes[node.code]
            move = Move(Act.GO, Event.CALL, code.first_line, node._replace(point=Point.RUN))
            yield Option(Step(Event.CALL, code.first_line), move, None, None, waiting)
            return
        for move in self.moves.of(node):
            if not (move.caught or loose):
                continue
            if move.act is not Act.RESUME:
                yield Option(Step(move.event, move.line), move, None, None, self._after(node, waiting, move))
                continue
            back = Node(node.code, move.at, move.back) if move.back else None
            for waiter in waiting:
                if waiter.code == move.code:
                    yield self._resumed(move, waiter, back, waiting)
        yield from self._at_any_time(node, waiting)

    def targets(self, option: Option) -> list[Node]:
        """Return where what is called or goes on begins."""
        move, waiter = option.move, option.waiter
        if waiter is None:
            assert move.node is not None
            return [move.node]
        found = []
        if move.goes_on:
            found.append(Node(waiter.code, waiter.at + 1, Point.RUN))
        if move.closes:
            found.append(Node(waiter.code, waiter.at, Point.THROWN))
            found += self._delegates(waiter)
        return found

    def _after(self, node: Node, waiting: Waiting, move: Move) -> Waiting:
        if move.act is Act.GO and move.event is Event.EXCEPTION:
            return freed(waiting)
        if move.act is Act.LEAVE and move.back is Point.YIELDED:
            free = node.code in self.moves.generators or self.moves.effects.names.raises_again
            return added(waiting, node.code, move.at, free)
        return waiting

    def _resumed(self, move: Move, waiter: Waiter, back: Node | None, waiting: Waiting) -> Option:
        line = self.moves.codes[waiter.code].instructions[waiter.at].line
        return Option(Step(Event.CALL, line), move, waiter, back, removed(waiting, waiter))

    def _at_any_time(self, node: Node, waiting: Waiting) -> Iterator[Option]:
        """Return what runs when an object is dropped: the frame then goes on as if nothing had been."""
        for number in self.moves.finalizers:
            code = self.moves.codes[number]
            move = Move(Act.ENTER, Event.CALL, code.first_line, Node(number, code.start, Point.RUN), node.at)
            yield Option(Step(Event.CALL, code.first_line), move, None, node, waiting)
        closed = [Waiter(number, self.moves.codes[number].born, True, True) for number in self.moves.generators]
        any_time = self.moves.effects.names.at_any_time
        for waiter in (*waiting, *closed):
            if waiter.free or any_time:
                goes_on = any_time and waiter not in closed
                move = Move(Act.RESUME, Event.CALL, -1, None, node.at, None, waiter.code, goes_on)
                yield self._resumed(move, waiter, node, waiting)

    def _delegates(self, waiter: Waiter) -> list[Node]:
        """An exception thrown into a generator that delegates may end in the other, which then has returned."""
        instructions = self.moves.codes[waiter.code].instructions
        jump = instructions[waiter.at + 2] if waiter.at + 2 < len(instructions) else None
        if jump is None or jump.op != "JUMP_BACKWARD_NO_INTERRUPT" or jump.target is None:
            return []
        return [Node(waiter.code, jump.target, Point.RETURNED)]
