"""A trace, read frame by frame against what its program allows.

The frames so far may have come about in several ways (two statements on a line, several calls in one): all of them are kept, as
configurations of a pushdown automaton that share their stacks (Tomita, "Efficient parsing for natural language", 1986).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from remedy.eval.control_flow.moves import Moves
from remedy.eval.control_flow.options import Node, Option, Place, Point, Step, Waiter, joined

MOST = 8
"""More configurations than this at one point are joined into one that allows all that they do."""
Exceptions = Literal["all", "caught"]


@dataclass(frozen=True, eq=False, slots=True)
class Below:
    """A frame that has called another: where it goes on, and all the frames that may lie below it."""

    code: int
    at: int
    back: Node | None
    """Where it goes on; None: that depends on how the other is left."""
    parents: frozenset[Below]
    stops: bool
    """Whether an exception may end here or below."""


def loose(parents: Collection[Below]) -> bool:
    """Say if an exception that a frame on top of one of these does not catch may end below it."""
    return any(one.stops for one in parents)


Configurations = Mapping[Place, frozenset[Below]]


class Walk:
    """Set of places that agree with the frames read so far; it says what may follow. It does not change: `advance` gives another."""

    def __init__(self, moves: Moves, configurations: Configurations, exceptions: Exceptions) -> None:
        self.moves = moves
        self.configurations = configurations
        self._exceptions = exceptions
        self._allowed: frozenset[Step] | None = None

    @classmethod
    def start(cls, moves: Moves, entry: int, exceptions: Exceptions) -> Walk:
        """Before the entry's CALL."""
        # Loading the program may have started those that have escaped, or a `__repr__`, which no frame shows.
        waits = [
            Waiter(code.number, at, True, True)
            for code in moves.codes
            for at, one in enumerate(code.instructions)
            if moves.generators and code.runs_later and one.op == "YIELD_VALUE"
        ]
        begin = Place(Node(entry, moves.codes[entry].start, Point.BEFORE), tuple(sorted(waits)))
        return cls(moves, {begin: frozenset()}, exceptions)

    def allowed(self) -> frozenset[Step]:
        """Every event and line that can come next.

        With exceptions `caught` those are left out that no handler and nothing unknown can catch, until nothing else is left.
        """
        if self._allowed is None:
            found = {option.step for place, below in self.configurations.items() for option in self._of(place, below)}
            if not found and self._exceptions == "caught":
                self._exceptions = "all"
                return self.allowed()
            self._allowed = frozenset(found)
        return self._allowed

    def _of(self, place: Place, parents: frozenset[Below]) -> Iterable[Option]:
        """The options there; exceptions that no frame catches are among them where they may be raised."""
        found = self.moves.options(place)
        return found if self._exceptions == "all" or loose(parents) else [one for one in found if one.caught]

    def advance(self, steps: Collection[Step]) -> Walk | None:
        """After a frame that is one of these steps: lines with the same text are told apart by what follows. None: none is allowed."""
        wanted = self.allowed() & frozenset(steps)
        found: defaultdict[Place, frozenset[Below]] = defaultdict(frozenset)
        below: defaultdict[tuple[int, int, Node | None], frozenset[Below]] = defaultdict(frozenset)
        entered = []
        for place, parents in self.configurations.items():
            for option in self._of(place, parents):
                if option.step not in wanted:
                    continue
                targets = [Place(node, option.waiting) for node in option.nodes]
                if option.at is not None:
                    called = (place.node.code, option.at, option.here)
                    below[called] |= parents
                    entered += [(target, called) for target in targets]
                elif option.back is None:
                    for target in targets:
                        found[target] |= parents
                elif parents:
                    for one in parents:
                        found[Place(one.back or Node(one.code, one.at, option.back), option.waiting)] |= one.parents
                else:
                    found[Place(place.node._replace(point=Point.END))] = frozenset()
        frames = {back: Below(*back, parents, self._stops(*back) or loose(parents)) for back, parents in below.items()}
        for place, back in entered:
            found[place] |= {frames[back]}
        return Walk(self.moves, _few(found), self._exceptions) if found else None

    def _stops(self, code: int, at: int, back: Node | None) -> bool:
        """Say if an exception may end in a frame that has called another at an instruction."""
        settled = back is not None and back.point is not Point.FAILED
        return settled or self.moves.stops(code, at)


def _few(configurations: dict[Place, frozenset[Below]]) -> dict[Place, frozenset[Below]]:
    """Not too many configurations: of those at one point of a frame one that allows what any of them does."""
    if len(configurations) <= MOST:
        return configurations
    by_node: defaultdict[Node, list[Place]] = defaultdict(list)
    for place in configurations:
        by_node[place.node].append(place)
    found: dict[Place, frozenset[Below]] = {}
    for node, places in by_node.items():
        if len(places) <= MOST:
            found.update((place, configurations[place]) for place in places)
        else:
            below = frozenset(one for place in places for one in configurations[place])
            found[Place(node, joined([waiting for _, waiting in places]))] = below
    return found
