"""Which events come next at a point of a frame, by evaluating its bytecode on what is known of its values.

Where a value is not known, both ways of a branch are taken; what may raise also does. `Lost` is raised where not even that says all
that may come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.bytecode import NO_LINE, Code
from remedy.eval.control_flow.guide.iteration import unnamed
from remedy.eval.control_flow.guide.values import (
    UNKNOWN,
    Data,
    Frame,
    Generator,
    Reading,
    Value,
)
from remedy.eval.control_flow.guide.way import Way, change
from remedy.eval.control_flow.moves import Moves, Point
from remedy.eval.control_flow.options import Step

MOST_STEPS = 4_000
"""Instructions that are evaluated for one frame."""
MOST_WAYS = 32
"""Ways that are open at a time."""


class Lost(Exception):
    """What comes next is not known."""


class Outcome(NamedTuple):
    """One event that may come next. `frame`: how things stand after it; None: with a frame of which nothing is known."""

    step: Step
    frame: Frame | None
    value: str | None = None
    """The text of what it returns, if nothing need be computed for it."""


class Line:
    """The events that may come next, gathered while ways are evaluated."""

    def __init__(self, moves: Moves, code: Code) -> None:
        self.moves = moves
        self.code = code
        self.effects = moves.effects.of[code.number]
        self.outcomes: list[Outcome] = []
        self.open: list[Way] = []

    def edge(self, way: Way, before: int, at: int | None) -> None:
        """A way goes on from one instruction to another."""
        if at is None:
            raise Lost
        if self.code.shows(before, at):
            one = self.code.instructions[at]
            point = Point.AGAIN if at <= before and one.op == "FOR_ITER" else Point.RUN
            self.outcomes.append(Outcome(Step(Event.LINE, one.line), way.frame(at, point)))
        else:
            way.at = at
            self.open.append(way)

    def done(self, way: Way, at: int) -> None:
        """An instruction is done, and goes on to the one after it."""
        self.edge(way, at, self.code.following(at))

    def line_of(self, at: int) -> int:
        line = self.code.instructions[at].line
        if line == NO_LINE:
            raise Lost
        return line

    def raises(self, way: Way, at: int) -> None:
        """The instruction raises, which is shown. The way may go on as well."""
        self.outcomes.append(Outcome(Step(Event.EXCEPTION, self.line_of(at)), way.copy().frame(at, Point.UNWIND)))

    def may_raise(self, way: Way, at: int) -> None:
        if self.effects[at].raises:
            self.raises(way, at)

    def unwind(self, way: Way, at: int, places: Iterable[int], raised: Value) -> None:
        """An exception that was shown leaves an instruction, as if from one of the places."""
        one = self.code.instructions[at]
        for place in places:
            if one.handler is None:
                self.leave(way, self.line_of(place), Point.RAISED, text="None")
                continue
            caught = way.copy()
            if caught.whole:
                del caught.stack[one.depth :]
            else:
                caught.stack.clear()
            caught.stack += [*([UNKNOWN] if one.keeps_place else []), raised]
            self.edge(caught, place, one.handler)

    def leave(
        self,
        way: Way,
        line: int,
        how: Point,
        came: Value = UNKNOWN,
        left: Frame | None = None,
        text: str | None = None,
    ) -> None:
        """The frame is left: the one below goes on where it called."""
        below = way.below
        if below is not None:
            if below.point is Point.CLOSED:
                how = Point.CLOSED  # what was thrown into a generator to close it ends there
            below = below._replace(point=how, came=came, left=left)
        self.outcomes.append(Outcome(Step(Event.RETURN, line), below, text))

    def enter(self, way: Way, at: int, number: int, reading: Reading | None = None, given: Value = UNKNOWN) -> None:
        """The instruction calls a function of the program. `given`: what a comprehension reads."""
        code = self.moves.codes[number]
        below = way.copy().frame(at, Point.RETURNED, reading)
        known = {code.parameters[0]: unnamed(given, None, way.locals)} if code.parameters[:1] == (".0",) else {}
        frame = Frame(number, code.start, Point.RUN, (), True, known, frozenset(), None, below)
        self.outcomes.append(Outcome(Step(Event.CALL, code.first_line), frame))

    def resume(self, way: Way, at: int, generator: Generator, reading: Reading | None = None) -> None:
        """The instruction has a generator go on."""
        frame = generator.frame
        code = self.moves.codes[frame.code]
        below = way.copy().frame(at, Point.YIELDED, reading)
        if frame.at == code.start:
            step, new = Step(Event.CALL, code.first_line), frame._replace(below=below)
        else:
            step = Step(Event.CALL, code.instructions[frame.at].line)
            new = frame._replace(at=frame.at + 1, point=Point.RUN, stack=(*frame.stack, Data(None)), below=below)
        self.outcomes.append(Outcome(step, new))

    def close(self, way: Way, at: int, generator: Generator, reading: Reading | None = None) -> None:
        """The instruction closes a generator that waits."""
        frame = generator.frame
        code = self.moves.codes[frame.code]
        if frame.at == code.start or code.instructions[frame.at].handler is not None:
            raise Lost
        below = way.copy().frame(at, Point.CLOSED, reading)
        thrown = frame._replace(point=Point.THROWN, below=below)
        self.outcomes.append(Outcome(Step(Event.CALL, code.instructions[frame.at].line), thrown))

    def unknown(self, way: Way, at: int) -> None:
        """The instruction does something that is not known, which may call, change and raise. Its operands are off the stack."""
        effect = self.effects[at]
        change(way, None)
        numbers = set(effect.runs)
        if effect.runs_escaped:
            if self.moves.generators:
                raise Lost
            numbers |= self.moves.functions
        if effect.closes is not None or effect.reads is not None:
            raise Lost
        for number in sorted(numbers):
            self.enter(way, at, number)
        self.may_raise(way, at)
