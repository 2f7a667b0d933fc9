"""Grammar of what may still come at a place of a trace: context-free, over steps.

The automaton's stack is the nesting of the grammar: an activation of a frame is a nonterminal for each way in which it may be left, and
a call is the step that shows it, what is called, and then the caller again. Which ways there are is found by following all until
nothing new comes (Reps, Horwitz & Sagiv, "Precise interprocedural dataflow analysis via graph reachability", 1995). Inside an
activation the grammar is left-linear (`to(b): to(a) step`), so that what a parser holds does not grow with the trace. Where no end can
be reached any more, as in a loop that never ends, a trace goes on until a limit cuts it: `NEVER`, which derives nothing, follows there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from remedy.eval.control_flow.bytecode import ControlFlowError
from remedy.eval.control_flow.moves import Act, Node, Point
from remedy.eval.control_flow.options import END, Option, Options, Place, Step, Waiting
from remedy.eval.control_flow.walk import Below, Walk, loose, stops

MOST = 30_000
"""Ways from place to place that are followed: a grammar of more is none that a server reads."""


class Rule(NamedTuple):
    """A nonterminal, by its number."""

    number: int


Symbols = tuple[Rule | Step, ...]
NEVER = Rule(0)
"""Derives nothing."""


class _Spot(NamedTuple):
    """A place of an activation. `all`: exceptions may be raised that nothing catches."""

    place: Place
    all: bool


class _Begin(NamedTuple):
    """Place where an activation begins, or goes on after what it called. `loose`: a frame below it may catch."""

    spot: _Spot
    loose: bool


class _Exit(NamedTuple):
    """Way in which an activation is left, and what then waits."""

    how: Point
    waiting: Waiting
    all: bool


class _Activation:
    """All ways from one beginning."""

    def __init__(self, begin: _Begin) -> None:
        self.begin = begin
        self.into: dict[_Spot, dict[tuple[_Spot, Step, _Left | None], None]] = {begin.spot: {}}
        """How each place is reached: from which, by which step, and after a call also through what."""
        self.exits: dict[_Exit, dict[tuple[_Spot, Step], None]] = {}
        """From where and by which step it is left."""
        self.calls: dict[tuple[_Spot, Step, _Begin], None] = {}
        self.callers: list[tuple[_Activation, _Spot, Option]] = []

    def dead(self) -> list[_Spot]:
        """The places from which it is never left."""
        alive: set[_Spot] = set()
        waiting = [spot for ways in self.exits.values() for spot, _ in ways]
        while waiting:
            spot = waiting.pop()
            if spot not in alive:
                alive.add(spot)
                waiting += [before for before, _, _ in self.into[spot]]
        return [spot for spot in self.into if spot not in alive]


class _To(NamedTuple):
    """An activation up to one of its places."""

    begin: _Begin
    spot: _Spot


class _Left(NamedTuple):
    """A whole activation that is left so."""

    begin: _Begin
    exit: _Exit


class _Endless(NamedTuple):
    """An activation that is never left."""

    begin: _Begin


class _Rest(NamedTuple):
    """Continuation after the frame on top of these was left so."""

    parents: frozenset[Below]
    exit: _Exit


_Name = _To | _Left | _Endless | _Rest


class Grammar:
    """The grammar of a program, as far as it was asked for: what was found from one place on serves others."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._activations: dict[_Begin, _Activation] = {}
        self._waiting: list[tuple[_Activation, _Spot]] = []
        self._ways = 0
        self._numbers: dict[_Name, Rule] = {}
        self._unnamed: list[_Name] = []
        self._rules: dict[Rule, Sequence[Symbols]] = {NEVER: [(NEVER, END)]}
        self._endless: dict[_Begin, bool] = {}

    def after(self, walk: Walk) -> list[Symbols]:
        """The alternatives of what may come after the frames that a walk has read.

        Raises:
            ControlFlowError: there are too many.
        """
        everything = walk.exceptions == "all"
        found = [one for place, below in walk.configurations.items() for one in self._from(place, below, everything)]
        while self._unnamed:
            name = self._unnamed.pop()
            self._rules[self._numbers[name]] = list(dict.fromkeys(self._derived(name)))
        return found

    def rules(self, alternatives: Collection[Symbols]) -> dict[Rule, Sequence[Symbols]]:
        """The rules of all nonterminals that these alternatives, of `after`, lead to."""
        found: dict[Rule, Sequence[Symbols]] = {}
        waiting = list(alternatives)
        while waiting:
            for symbol in waiting.pop():
                if isinstance(symbol, Rule) and symbol not in found:
                    found[symbol] = self._rules[symbol]
                    waiting += found[symbol]
        return found

    def _from(self, place: Place, parents: frozenset[Below], everything: bool) -> Iterable[Symbols]:
        """From a place to the end of its activation, and on from the frames below."""
        if place.node.point is Point.END:
            yield (END,)
            return
        begin = _Begin(_Spot(place, everything), loose(parents))
        for one in self._explored(begin).exits:
            yield self._rule(_Left(begin, one)), self._rule(_Rest(parents, one))
        if self._is_endless(begin):
            yield (self._rule(_Endless(begin)),)

    def _rule(self, name: _Name) -> Rule:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = Rule(len(self._numbers) + 1)
            self._unnamed.append(name)
        return found

    def _derived(self, name: _Name) -> Iterable[Symbols]:
        """The alternatives of a nonterminal."""
        if isinstance(name, _Rest):
            yield from self._rest(name)
            return
        begin = name.begin
        activation = self._activations[begin]
        if isinstance(name, _To):
            if name.spot == begin.spot:
                yield ()
            for before, step, through in activation.into[name.spot]:
                called = () if through is None else (self._rule(through),)
                yield self._rule(_To(begin, before)), step, *called
        elif isinstance(name, _Left):
            for spot, step in activation.exits[name.exit]:
                yield self._rule(_To(begin, spot)), step
        else:
            for spot in activation.dead():
                yield self._rule(_To(begin, spot)), NEVER
            for spot, step, called_at in activation.calls:
                if self._is_endless(called_at):
                    yield self._rule(_To(begin, spot)), step, self._rule(_Endless(called_at))

    def _rest(self, name: _Rest) -> Iterable[Symbols]:
        if not name.parents:
            yield (END,)
        for one in name.parents:
            place = Place(one.again(name.exit.how), name.exit.waiting)
            yield from self._from(place, one.parents, name.exit.all)

    def _is_endless(self, begin: _Begin) -> bool:
        """Say if an activation, or one that it calls, may never be left."""
        if begin not in self._endless:
            seen, waiting, found = {begin}, [begin], False
            while waiting and not found:
                activation = self._activations[waiting.pop()]
                found = bool(activation.dead())
                more = {called for _, _, called in activation.calls} - seen
                seen |= more
                waiting += more
            self._endless[begin] = found
        return self._endless[begin]

    def _explored(self, begin: _Begin) -> _Activation:
        """An activation, all of whose ways are known."""
        found = self._activation(begin)
        while self._waiting:
            self._follow(*self._waiting.pop())
        return found

    def _activation(self, begin: _Begin) -> _Activation:
        found = self._activations.get(begin)
        if found is None:
            found = self._activations[begin] = _Activation(begin)
            self._waiting.append((found, begin.spot))
        return found

    def _follow(self, activation: _Activation, spot: _Spot) -> None:
        """The ways on from a place. As in a walk, exceptions that nothing catches are raised where nothing else can come."""
        (place, everything), (_, below) = spot, activation.begin
        options = list(self._options.of(place, everything or below))
        if not options and not everything:
            everything, options = True, list(self._options.of(place, True))
        for option in options:
            move = option.move
            if move.act is Act.GO:
                assert move.node is not None
                self._reach(activation, _Spot(Place(move.node, option.waiting), everything), (spot, option.step, None))
            elif move.act is Act.LEAVE:
                assert move.back is not None
                self._leave(activation, _Exit(move.back, option.waiting, everything), spot, option.step)
            else:
                catches = below or stops(self._options.moves, place.node.code, move.at, option.here)
                for target in self._options.targets(option):
                    called = _Begin(_Spot(Place(target, option.waiting), everything), catches)
                    self._call(activation, spot, option, called)

    def _reach(self, activation: _Activation, spot: _Spot, way: tuple[_Spot, Step, _Left | None]) -> None:
        if spot not in activation.into:
            activation.into[spot] = {}
            self._waiting.append((activation, spot))
        activation.into[spot][way] = None
        self._ways += 1
        if self._ways > MOST:
            raise ControlFlowError(f"there are more than {MOST:,} ways from frame to frame, too many for a grammar")

    def _leave(self, activation: _Activation, how: _Exit, spot: _Spot, step: Step) -> None:
        new = how not in activation.exits
        activation.exits.setdefault(how, {})[spot, step] = None
        for caller, at, option in activation.callers if new else ():
            self._go_on(caller, at, option, _Left(activation.begin, how))

    def _call(self, caller: _Activation, spot: _Spot, option: Option, begin: _Begin) -> None:
        called = self._activation(begin)
        caller.calls[spot, option.step, begin] = None
        called.callers.append((caller, spot, option))
        for how in list(called.exits):
            self._go_on(caller, spot, option, _Left(begin, how))

    def _go_on(self, caller: _Activation, spot: _Spot, option: Option, left: _Left) -> None:
        """After a call that was left so."""
        node = option.here or Node(spot.place.node.code, option.move.at, left.exit.how)
        again = _Spot(Place(node, left.exit.waiting), left.exit.all)
        self._reach(caller, again, (spot, option.step, left))
