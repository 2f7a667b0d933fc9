"""A trace, read frame by frame against what its program allows.

The frames so far may have come about in several ways (two statements on a line, several calls in one): all of them are kept, as
configurations of a pushdown automaton that share their stacks (Tomita, "Efficient parsing for natural language", 1986).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from remedy.data_gen.control_flow.moves import Act, Move, Moves, Node, Point
from remedy.data_gen.control_flow.waiting import Waiter, Waiting, added, freed, joined, removed
from remedy.data_gen.execution.program import Event

MOST = 8
"""More configurations than this at one point are joined into one that allows all that they do."""
Exceptions = Literal["all", "caught"]


class Step(NamedTuple):
    """One frame's event and physical line, counted from 1; the end of the trace has neither."""

    event: Event | None
    line: int


END = Step(None, 0)


class _Below:
    """A frame that has called another: where it goes on, and all the frames that may lie below it."""

    __slots__ = ("at", "back", "code", "parents", "stops")

    def __init__(self, code: int, at: int, back: Node | None, parents: frozenset[_Below], stops: bool) -> None:
        self.code = code
        self.at = at
        self.back = back
        """None: that depends on how the other is left."""
        self.parents = parents
        self.stops: bool = stops or any(one.stops for one in parents)
        """Whether an exception may end here or below."""


_Place = tuple[Node, Waiting]
_Configurations = Mapping[_Place, frozenset[_Below]]
_Back = tuple[int, int, Node | None]


class _Option(NamedTuple):
    """One way to go on: a move, and for a generator that goes on or is closed, which."""

    step: Step
    move: Move
    waiter: Waiter | None
    here: Node | None
    """Where this frame goes on if that is settled."""


class Walk:
    """What may follow the frames read so far. It does not change: `advance` gives another."""

    def __init__(self, moves: Moves, configurations: _Configurations, exceptions: Exceptions) -> None:
        self._moves = moves
        self._configurations = configurations
        self._exceptions = exceptions
        self._allowed: frozenset[Step] | None = None

    @classmethod
    def start(cls, moves: Moves, entry: int, exceptions: Exceptions) -> Walk:
        """Before the entry's CALL."""
        waiting: Waiting = ()
        if moves.effects.starts_with_any:
            waits = [
                Waiter(code.number, at, True, True)
                for code in moves.codes
                for at, one in enumerate(code.instructions)
                if code.runs_later and one.op == "YIELD_VALUE"
            ]
            waiting = tuple(sorted(waits))
        return cls(moves, {(Node(entry, moves.codes[entry].start, Point.BEFORE), waiting): frozenset()}, exceptions)

    def allowed(self) -> frozenset[Step]:
        """Every event and line that can come next.

        With exceptions `caught` those are left out that no handler and nothing unknown can catch, until nothing else is left.
        """
        if self._allowed is None:
            found = {
                option.step for place, below in self._configurations.items() for option in self._options(place, below)
            }
            if not found and self._exceptions == "caught":
                self._exceptions = "all"
                return self.allowed()
            self._allowed = frozenset(found)
        return self._allowed

    @property
    def node(self) -> Node | None:
        """Where the frame that runs is, if that is certain."""
        nodes = {node for node, _ in self._configurations}
        return next(iter(nodes)) if len(nodes) == 1 else None

    @property
    def may_drop(self) -> bool:
        """Whether anything may run between any two instructions, since objects may be dropped that run it then."""
        moves = self._moves
        free = any(waiter.free for _, waiting in self._configurations for waiter in waiting)
        return free or bool(moves.finalizers or moves.generators)

    def forced(self) -> Step | None:
        """What must come next, if that is certain."""
        allowed = self.allowed()
        return next(iter(allowed)) if len(allowed) == 1 else None

    def advance(self, steps: Collection[Step]) -> Walk | None:
        """After a frame that is one of these steps: lines with the same text are told apart by what follows. None: none is allowed."""
        wanted = self.allowed() & frozenset(steps)
        found: dict[_Place, frozenset[_Below]] = {}
        below: dict[_Back, frozenset[_Below]] = {}
        entered: list[tuple[_Place, _Back]] = []
        for place, parents in self._configurations.items():
            for option in self._options(place, parents):
                if option.step in wanted:
                    self._take(option, place, parents, found, below, entered)
        frames = {back: self._below(back, parents) for back, parents in below.items()}
        for place, back in entered:
            found[place] = found.get(place, frozenset()) | {frames[back]}
        return Walk(self._moves, _few(found), self._exceptions) if found else None

    def _below(self, back: _Back, parents: frozenset[_Below]) -> _Below:
        code, at, node = back
        settled = node is not None and node.point is not Point.FAILED
        return _Below(code, at, node, parents, settled or self._moves.stops(code, at))

    def _options(self, place: _Place, parents: frozenset[_Below]) -> Iterator[_Option]:
        node, waiting = place
        if node.point is Point.END:
            yield _Option(END, Move(Act.GO, Event.RETURN, 0, node), None, None)
            return
        if node.point is Point.BEFORE:
            code = self._moves.codes[node.code]
            move = Move(Act.GO, Event.CALL, code.first_line, node._replace(point=Point.RUN))
            yield _Option(Step(Event.CALL, code.first_line), move, None, None)
            return
        loose = self._exceptions == "all" or any(one.stops for one in parents)
        for move in self._moves.of(node):
            if not (move.caught or loose):
                continue
            if move.act is not Act.RESUME:
                yield _Option(Step(move.event, move.line), move, None, None)
                continue
            back = Node(node.code, move.at, move.back) if move.back else None
            for waiter in waiting:
                if waiter.code == move.code:
                    yield _Option(Step(Event.CALL, self._line(waiter)), move, waiter, back)
        yield from self._at_any_time(node, waiting)

    def _line(self, waiter: Waiter) -> int:
        return self._moves.codes[waiter.code].instructions[waiter.at].line

    def _at_any_time(self, node: Node, waiting: Waiting) -> Iterator[_Option]:
        """What runs when an object is dropped: the frame then goes on as if nothing had been."""
        for number in self._moves.finalizers:
            code = self._moves.codes[number]
            move = Move(Act.ENTER, Event.CALL, code.first_line, Node(number, code.start, Point.RUN), node.at)
            yield _Option(Step(Event.CALL, code.first_line), move, None, node)
        closed = [Waiter(number, self._moves.codes[number].born, True, True) for number in self._moves.generators]
        for waiter in (*waiting, *closed):
            if waiter.free:
                move = Move(Act.RESUME, Event.CALL, -1, None, node.at, None, waiter.code, goes_on=False)
                yield _Option(Step(Event.CALL, self._line(waiter)), move, waiter, node)

    def _take(
        self,
        option: _Option,
        place: _Place,
        parents: frozenset[_Below],
        found: dict[_Place, frozenset[_Below]],
        below: dict[_Back, frozenset[_Below]],
        entered: list[tuple[_Place, _Back]],
    ) -> None:
        """Where an option leads: into `found`, or with a frame more on the stack, into `below` and `entered`."""
        (node, waiting), move = place, option.move
        if move.act is Act.GO:
            assert move.node is not None
            waiting = freed(waiting) if move.event is Event.EXCEPTION else waiting
            new = (move.node, waiting)
            found[new] = found.get(new, frozenset()) | parents
        elif move.act is Act.LEAVE:
            assert move.back is not None
            if move.back is Point.YIELDED:
                free = node.code in self._moves.generators or self._moves.effects.names.raises_again
                waiting = added(waiting, node.code, move.at, free)
            for one in parents:
                new = (one.back or Node(one.code, one.at, move.back), waiting)
                found[new] = found.get(new, frozenset()) | one.parents
            if not parents:
                found[Node(node.code, node.at, Point.END), ()] = frozenset()
        else:
            back = (node.code, move.at, option.here)
            below[back] = below.get(back, frozenset()) | parents
            if option.waiter is not None:
                waiting = removed(waiting, option.waiter.code, option.waiter.at)
            entered += [((target, waiting), back) for target in self._targets(option)]

    def _targets(self, option: _Option) -> list[Node]:
        """Where what is called or goes on begins."""
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

    def _delegates(self, waiter: Waiter) -> list[Node]:
        """An exception thrown into a generator that delegates may end in the other, which then has returned."""
        instructions = self._moves.codes[waiter.code].instructions
        jump = instructions[waiter.at + 2] if waiter.at + 2 < len(instructions) else None
        if jump is None or jump.op != "JUMP_BACKWARD_NO_INTERRUPT" or jump.target is None:
            return []
        return [Node(waiter.code, jump.target, Point.RETURNED)]


def _few(configurations: dict[_Place, frozenset[_Below]]) -> dict[_Place, frozenset[_Below]]:
    """Not too many configurations: of those at one point of a frame one that allows what any of them does."""
    if len(configurations) <= MOST:
        return configurations
    by_node: dict[Node, list[_Place]] = {}
    for place in configurations:
        by_node.setdefault(place[0], []).append(place)
    found: dict[_Place, frozenset[_Below]] = {}
    for node, places in by_node.items():
        if len(places) <= MOST:
            found.update((place, configurations[place]) for place in places)
        else:
            below = frozenset(one for place in places for one in configurations[place])
            found[node, joined([waiting for _, waiting in places])] = below
    return found
