"""A trace, read frame by frame against what its program allows.

The frames so far may have come about in several ways (two statements on a line, several calls in one): all of them are kept, as
configurations of a pushdown automaton that share their stacks (Tomita, "Efficient parsing for natural language", 1986).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from remedy.eval.control_flow.moves import Act, Moves, Node, Point
from remedy.eval.control_flow.options import Option, Options, Place, Step, Waiter, Waiting, joined

MOST = 8
"""More configurations than this at one point are joined into one that allows all that they do."""
Exceptions = Literal["all", "caught"]


class Below:
    """A frame that has called another: where it goes on, and all the frames that may lie below it."""

    __slots__ = ("at", "back", "code", "parents", "stops")

    def __init__(self, code: int, at: int, back: Node | None, parents: frozenset[Below], stops: bool) -> None:
        self.code = code
        self.at = at
        self.back = back
        """None: that depends on how the other is left."""
        self.parents = parents
        self.stops: bool = stops or loose(parents)
        """Whether an exception may end here or below."""

    def again(self, how: Point) -> Node:
        """Return where it goes on when the other is left."""
        return self.back or Node(self.code, self.at, how)


def loose(parents: Collection[Below]) -> bool:
    """Say if an exception that a frame on top of one of these does not catch may end below it."""
    return any(one.stops for one in parents)


def stops(moves: Moves, code: int, at: int, back: Node | None) -> bool:
    """Say if an exception may end in a frame that has called another at an instruction."""
    settled = back is not None and back.point is not Point.FAILED
    return settled or moves.stops(code, at)


Configurations = Mapping[Place, frozenset[Below]]
_Back = tuple[int, int, Node | None]


class Walk:
    """Set of places that agree with the frames read so far; it says what may follow. It does not change: `advance` gives another."""

    def __init__(self, options: Options, configurations: Configurations, exceptions: Exceptions) -> None:
        self.options = options
        self.configurations = configurations
        self._exceptions = exceptions
        self._allowed: frozenset[Step] | None = None

    @classmethod
    def start(cls, moves: Moves, entry: int, exceptions: Exceptions) -> Walk:
        """Before the entry's CALL."""
        waiting: Waiting = ()
        if moves.generators:  # loading the program may have started them, or a `__repr__`, which no frame shows
            waits = [
                Waiter(code.number, at, True, True)
                for code in moves.codes
                for at, one in enumerate(code.instructions)
                if code.runs_later and one.op == "YIELD_VALUE"
            ]
            waiting = tuple(sorted(waits))
        begin = Place(Node(entry, moves.codes[entry].start, Point.BEFORE), waiting)
        return cls(Options(moves), {begin: frozenset()}, exceptions)

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
        return self.options.of(place, self._exceptions == "all" or loose(parents))

    @property
    def node(self) -> Node | None:
        """Return where the frame that runs is, if that is certain."""
        nodes = {node for node, _ in self.configurations}
        return next(iter(nodes)) if len(nodes) == 1 else None

    @property
    def may_drop(self) -> bool:
        """Say if anything may run between any two instructions, since objects may be dropped that run it then."""
        moves = self.options.moves
        free = any(waiter.free for _, waiting in self.configurations for waiter in waiting)
        return free or bool(moves.finalizers or moves.generators)

    def advance(self, steps: Collection[Step]) -> Walk | None:
        """After a frame that is one of these steps: lines with the same text are told apart by what follows. None: none is allowed."""
        wanted = self.allowed() & frozenset(steps)
        found: dict[Place, frozenset[Below]] = {}
        below: dict[_Back, frozenset[Below]] = {}
        entered: list[tuple[Place, _Back]] = []
        for place, parents in self.configurations.items():
            for option in self._of(place, parents):
                if option.step in wanted:
                    self._take(option, place, parents, found, below, entered)
        moves = self.options.moves
        frames = {back: Below(*back, parents, stops(moves, *back)) for back, parents in below.items()}
        for place, back in entered:
            found[place] = found.get(place, frozenset()) | {frames[back]}
        return Walk(self.options, _few(found), self._exceptions) if found else None

    def _take(
        self,
        option: Option,
        place: Place,
        parents: frozenset[Below],
        found: dict[Place, frozenset[Below]],
        below: dict[_Back, frozenset[Below]],
        entered: list[tuple[Place, _Back]],
    ) -> None:
        """Return where an option leads: into `found`, or with a frame more on the stack, into `below` and `entered`."""
        node, move, waiting = place.node, option.move, option.waiting
        if move.act is Act.GO:
            assert move.node is not None
            new = Place(move.node, waiting)
            found[new] = found.get(new, frozenset()) | parents
        elif move.act is Act.LEAVE:
            assert move.back is not None
            for one in parents:
                new = Place(one.again(move.back), waiting)
                found[new] = found.get(new, frozenset()) | one.parents
            if not parents:
                found[Place(node._replace(point=Point.END))] = frozenset()
        else:
            back = (node.code, move.at, option.here)
            below[back] = below.get(back, frozenset()) | parents
            entered += [(Place(target, waiting), back) for target in self.options.targets(option)]


def _few(configurations: dict[Place, frozenset[Below]]) -> dict[Place, frozenset[Below]]:
    """Not too many configurations: of those at one point of a frame one that allows what any of them does."""
    if len(configurations) <= MOST:
        return configurations
    by_node: dict[Node, list[Place]] = {}
    for place in configurations:
        by_node.setdefault(place[0], []).append(place)
    found: dict[Place, frozenset[Below]] = {}
    for node, places in by_node.items():
        if len(places) <= MOST:
            found.update((place, configurations[place]) for place in places)
        else:
            below = frozenset(one for place in places for one in configurations[place])
            found[Place(node, joined([waiting for _, waiting in places]))] = below
    return found
