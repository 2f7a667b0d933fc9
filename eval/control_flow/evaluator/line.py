"""Events that come next at a point of a frame: its instructions say in which order expressions are evaluated, and these where it goes.

Where a value is not known, both ways of a branch are taken; what may raise also does. `Lost` is raised where not even that says all
that may come.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.bytecode import NO_LINE
from remedy.eval.control_flow.evaluator.frame import Frame, change
from remedy.eval.control_flow.evaluator.source import Source
from remedy.eval.control_flow.evaluator.values import UNKNOWN
from remedy.eval.control_flow.known import words
from remedy.eval.control_flow.options import Point, Step

_GIVES = words("CALL CALL_FUNCTION_EX BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP LIST_EXTEND SET_UPDATE")
_GIVES_TOO = ("LOAD_", "UNARY_", "BUILD_")


class Lost(Exception):
    """Signal that what comes next is not known."""


class Outcome(NamedTuple):
    """One event that may come next. `frame`: how things stand after it; None: with a frame of which nothing is known."""

    step: Step
    frame: Frame | None
    value: str | None = None
    """The text of what it returns, if nothing need be computed for it."""


class Line:
    """The events that may come next, gathered while ways through a line are evaluated, each a frame at its next instruction."""

    def __init__(self, source: Source, number: int) -> None:
        self.source = source
        self.moves = source.moves
        self.code = self.moves.codes[number]
        self.effects = self.moves.effects.of[number]
        self.nodes = source.of[number]
        self.outcomes: list[Outcome] = []
        self.open: list[Frame] = []

    def edge(self, way: Frame, before: int, at: int | None) -> None:
        """A way goes on from one instruction to another."""
        if at is None:
            raise Lost
        one, shows = self.code.instructions[at], self.code.shows(before, at)
        if at <= before or (shows and one.line not in self.source.joined):
            way.values = {}
        if shows:
            point = Point.AGAIN if at <= before and one.op == "FOR_ITER" else Point.RUN
            self.outcomes.append(Outcome(Step(Event.LINE, one.line), way.copy(at=at, point=point)))
        else:
            way.at = at
            self.open.append(way)

    def done(self, way: Frame, at: int) -> None:
        """An instruction is done, and goes on to the one after it."""
        self.edge(way, at, self.code.following(at))

    def gives(self, way: Frame, at: int, value: Any) -> None:
        """An instruction is done that gives the value of its expression."""
        if (node := self.nodes[at]) is not None:
            way.values[node] = value
        self.done(way, at)

    def line_of(self, at: int) -> int:
        line = self.code.instructions[at].line
        if line == NO_LINE:
            raise Lost
        return line

    def raises(self, way: Frame, at: int) -> None:
        """The instruction raises, which is shown. The way may go on as well."""
        self.outcomes.append(Outcome(Step(Event.EXCEPTION, self.line_of(at)), way.copy(at=at, point=Point.UNWIND)))

    def may_raise(self, way: Frame, at: int) -> None:
        if self.effects[at].raises:
            self.raises(way, at)

    def unwind(self, way: Frame, at: int, places: Iterable[int]) -> None:
        """An exception that was shown leaves an instruction, as if from one of the places."""
        handler = self.code.instructions[at].handler
        for place in places:
            if handler is None:
                self.leave(way, place, Point.RAISED, "None")
            else:
                self.edge(way.copy(values={}), place, handler)

    def leave(self, way: Frame, at: int, how: Point, text: str | None = None) -> None:
        """The frame is left: the one below goes on where it called."""
        below = way.below.copy(point=how) if way.below is not None else None
        self.outcomes.append(Outcome(Step(Event.RETURN, self.line_of(at)), below, text))

    def enter(self, way: Frame, at: int, number: int, awaited: bool = False, given: Any = UNKNOWN) -> None:
        """The instruction calls a function of the program. `given`: what a comprehension reads."""
        code = self.moves.codes[number]
        first = [place for place, one in enumerate(code.instructions) if (one.op, one.name) == ("LOAD_FAST", ".0")]
        loops = {place + 1: given for place in first[:1]}
        frame = Frame(number, code.start, loops=loops, below=way.copy(at=at, awaited=awaited))
        self.outcomes.append(Outcome(Step(Event.CALL, code.first_line), frame))

    def unknown(self, way: Frame, at: int) -> Any:
        """The instruction does something that is not known, which may call, change and raise; what it gives is UNKNOWN."""
        effect = self.effects[at]
        change(way, UNKNOWN)
        if effect.closes is not None or effect.reads is not None or (effect.runs_escaped and self.moves.generators):
            raise Lost
        for number in sorted(effect.runs | (self.moves.functions if effect.runs_escaped else frozenset())):
            self.enter(way, at, number)
        self.may_raise(way, at)
        return UNKNOWN

    def quiet(self, way: Frame, at: int) -> Any:
        """As `unknown`, of one of Python's own operations: it changes nothing unless it runs something of the program."""
        effect = self.effects[at]
        if effect.runs or effect.reads is not None or (effect.runs_escaped and self.moves.effects.escaped):
            return self.unknown(way, at)
        self.may_raise(way, at)
        return UNKNOWN

    def made(self, at: int) -> ast.AST | None:
        """The expression whose value the instruction before has given."""
        before = self.code.before(at)
        if before is not None and before.op in ("STORE_FAST", "STORE_DEREF"):
            return self.source.stored.get(self.nodes[at - 1])  # type: ignore[arg-type]
        given = before is not None and (before.op in _GIVES or before.op.startswith(_GIVES_TOO))
        return self.nodes[at - 1] if given else None
