"""Which events come next at a point of a frame: its instructions say in which order expressions are evaluated, and these where it goes.

Where a value is not known, both ways of a branch are taken; what may raise also does. `Lost` is raised where not even that says all
that may come.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.bytecode import NO_LINE
from remedy.eval.control_flow.evaluator.source import Source
from remedy.eval.control_flow.evaluator.values import UNKNOWN, Frame, Generator, Reading
from remedy.eval.control_flow.evaluator.way import Way, change, unnamed
from remedy.eval.control_flow.known import words
from remedy.eval.control_flow.moves import Point
from remedy.eval.control_flow.options import Step

MOST_STEPS = 4_000
"""Instructions that are evaluated for one frame."""
MOST_WAYS = 32
"""Ways that are open at a time."""
_GIVES = words("CALL CALL_FUNCTION_EX BINARY_OP BINARY_SUBSCR CHECK_EXC_MATCH COMPARE_OP IS_OP CONTAINS_OP LIST_EXTEND SET_UPDATE")
_GIVES_TOO = ("LOAD_", "UNARY_", "BUILD_", "FORMAT_", "DICT_")


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

    def __init__(self, source: Source, number: int) -> None:
        self.source = source
        self.moves = source.moves
        self.code = self.moves.codes[number]
        self.effects = self.moves.effects.of[number]
        self.outcomes: list[Outcome] = []
        self.open: list[Way] = []

    def edge(self, way: Way, before: int, at: int | None) -> None:
        """A way goes on from one instruction to another."""
        if at is None:
            raise Lost
        one = self.code.instructions[at]
        shows = self.code.shows(before, at)
        if at <= before or (shows and one.line not in self.source.joined):
            way.values = {}
        if shows:
            point = Point.AGAIN if at <= before and one.op == "FOR_ITER" else Point.RUN
            self.outcomes.append(Outcome(Step(Event.LINE, one.line), way.frame(at, point)))
        else:
            way.at = at
            self.open.append(way)

    def done(self, way: Way, at: int) -> None:
        """An instruction is done, and goes on to the one after it."""
        self.edge(way, at, self.code.following(at))

    def gives(self, way: Way, at: int, value: Any) -> None:
        """An instruction is done that gives the value of its expression."""
        if (node := way.node(at)) is not None:
            way.values[node] = value
        self.done(way, at)

    def line_of(self, at: int) -> int:
        line = self.code.instructions[at].line
        if line == NO_LINE:
            raise Lost
        return line

    def raises(self, way: Way, at: int) -> None:
        """The instruction raises, which is shown. The way may go on as well."""
        self.outcomes.append(Outcome(Step(Event.EXCEPTION, self.line_of(at)), way.frame(at, Point.UNWIND)))

    def may_raise(self, way: Way, at: int) -> None:
        if self.effects[at].raises:
            self.raises(way, at)

    def unwind(self, way: Way, at: int, places: Iterable[int], raised: Any) -> None:
        """An exception that was shown leaves an instruction, as if from one of the places."""
        handler = self.code.instructions[at].handler
        for place in places:
            if handler is None:
                self.leave(way, self.line_of(place), Point.RAISED, text="None")
                continue
            after = way.copy()
            after.values = {}
            after.loops[-1] = raised
            self.edge(after, place, handler)

    def leave(
        self, way: Way, line: int, how: Point, came: Any = UNKNOWN, left: Frame | None = None, text: str | None = None
    ) -> None:
        """The frame is left: the one below goes on where it called."""
        below = way.below
        if below is not None:
            if below.point is Point.CLOSED:
                how = Point.CLOSED  # what was thrown into a generator to close it ends there
            below = below._replace(point=how, came=came, left=left)
        self.outcomes.append(Outcome(Step(Event.RETURN, line), below, text))

    def enter(self, way: Way, at: int, number: int, reading: Reading | None = None, given: Any = UNKNOWN) -> None:
        """The instruction calls a function of the program. `given`: what a comprehension reads."""
        below = way.frame(at, Point.RETURNED, reading)
        frame = self.born(number, unnamed(given, way.locals))._replace(below=below)
        self.outcomes.append(Outcome(Step(Event.CALL, self.moves.codes[number].first_line), frame))

    def born(self, number: int, given: Any) -> Frame:
        """A frame that begins. `given`: what a comprehension reads."""
        code = self.moves.codes[number]
        first = [at for at, one in enumerate(code.instructions) if (one.op, one.name) == ("LOAD_FAST", ".0")]
        return Frame(number, code.start, Point.RUN, {}, loops={at + 1: given for at in first[:1]})

    def resume(self, way: Way, at: int, generator: Generator, reading: Reading) -> None:
        """The instruction has a generator go on."""
        frame, code = generator.frame, self.moves.codes[generator.frame.code]
        new = frame._replace(below=way.frame(at, Point.YIELDED, reading))
        line = code.first_line
        if frame.at != code.start:
            line, new = code.instructions[frame.at].line, new._replace(at=frame.at + 1, point=Point.RUN)
        self.outcomes.append(Outcome(Step(Event.CALL, line), new))

    def close(self, way: Way, at: int, generator: Generator, reading: Reading) -> None:
        """The instruction closes a generator that waits."""
        frame, code = generator.frame, self.moves.codes[generator.frame.code]
        if frame.at == code.start or code.instructions[frame.at].handler is not None:
            raise Lost
        thrown = frame._replace(point=Point.THROWN, below=way.frame(at, Point.CLOSED, reading))
        self.outcomes.append(Outcome(Step(Event.CALL, code.instructions[frame.at].line), thrown))

    def unknown(self, way: Way, at: int) -> None:
        """The instruction does something that is not known, which may call, change and raise."""
        effect = self.effects[at]
        change(way, UNKNOWN)
        numbers = set(effect.runs)
        if effect.runs_escaped:
            numbers |= self.moves.functions
        if effect.closes is not None or effect.reads is not None or (effect.runs_escaped and self.moves.generators):
            raise Lost
        for number in sorted(numbers):
            self.enter(way, at, number)
        self.may_raise(way, at)

    def quiet(self, way: Way, at: int) -> None:
        """The instruction is one of Python's own on something unknown, and changes nothing."""
        effect = self.effects[at]
        if effect.runs or (effect.runs_escaped and (self.moves.functions or self.moves.generators)):
            self.unknown(way, at)
        else:
            self.may_raise(way, at)

    def made(self, way: Way, at: int) -> ast.AST | None:
        """The expression whose value the instruction before has given."""
        before = self.code.before(at)
        given = before is not None and (before.op in _GIVES or before.op.startswith(_GIVES_TOO))
        return way.node(at - 1) if given else None

    def next_item(self, way: Way, at: int, found: tuple[Any, Any] | None) -> None:
        """A loop goes on with an item and the iterator after it, or ends."""
        if found is None:
            self.edge(way, at, self.code.instructions[at].target)
            return
        item, way.loops[at] = found
        if (target := way.node(at + 1)) is not None:
            way.values[target] = item
        self.done(way, at)
