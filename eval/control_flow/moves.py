"""Rules of the events that may come next at a point of a frame: those of CPython 3.11's `sys.settrace` exactly.

- LINE at an instruction: it has a line, and that is another than the last instruction's, or it stands before that one (and is no
  SEND), or the frame has just begun. An instruction without a line fires nothing and makes the next one's another.
- CALL shows the line of the RESUME that is reached: a function's first, or a generator's after its `yield`. Making a generator fires
  nothing; closing one fires CALL, EXCEPTION and RETURN, even where it never ran.
- EXCEPTION fires once in each frame, at the line that raised; raising again fires none. Leaving a frame by an exception fires RETURN.
- A loop or delegation fires EXCEPTION and goes on where what it reads ends with a StopIteration that was raised.

(`Python/ceval.c` of 3.11: `maybe_call_line_trace`, `call_exc_trace`, `FOR_ITER`, `SEND`, `exception_unwind`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from remedy.data_gen.execution.program import Event
from remedy.eval.control_flow.bytecode import NO_LINE, Bytecode, Code, Handlers
from remedy.eval.control_flow.effects import Effects
from remedy.eval.control_flow.options import END, Node, Option, Place, Point, Step, Waiter, added, freed, removed


class Moves:
    """The options at each place, made when they are asked for."""

    def __init__(self, bytecode: Bytecode, effects: Effects) -> None:
        self.codes = bytecode.codes
        self.effects = effects
        names = effects.names
        self.functions = frozenset(number for number in effects.escaped if not self.codes[number].runs_later)
        """Functions that anything unknown may call."""
        self.generators = frozenset(effects.escaped) - self.functions
        self.finalizers = frozenset(code.number for code in self.codes if code.name == "__del__")
        if names.at_any_time:
            self.finalizers |= effects.escaped
        self.handlers = Handlers(bytecode)
        self.options = cache(self._options)
        """The options at a place, in their order."""

    def _options(self, place: Place) -> tuple[Option, ...]:
        (code, at, point), waiting = place
        if point is Point.END:
            return (Option(END, waiting, (place.node,)),)
        if point is Point.BEFORE:
            return (Option(Step(Event.CALL, self.codes[code].first_line), waiting, (Node(code, at, Point.RUN),)),)
        return tuple(dict.fromkeys(_Closure(self, place).options))

    def stops(self, code: int, at: int) -> bool:
        """Say if an exception of what an instruction called may end in this frame, by a handler or in what is no code of ours."""
        known = self.effects.of[code][at]
        unknown = known.reads is None and (known.calls is None or known.runs_escaped) and self.effects.names.may_swallow
        return unknown or self.handlers.catches(code, at)


class _Closure:
    """Walks silently from a node over instructions, along all ways, to the events that end them."""

    def __init__(self, program: Moves, place: Place) -> None:
        self.program = program
        self.node, self.waiting = place
        self.code: Code = program.codes[self.node.code]
        self.effects = program.effects.of[self.node.code]
        self.options: list[Option] = []
        self._seen: set[tuple[int, bool]] = set()
        self._ahead: list[tuple[int, bool]] = []
        self._begin(self.node)
        while self._ahead:
            one = self._ahead.pop()
            if one not in self._seen:
                self._seen.add(one)
                self._run(*one)
        self._drop()

    def _begin(self, node: Node) -> None:
        at, point = node.at, node.point
        effect = self.effects[at]
        if point in (Point.RUN, Point.AGAIN):
            self._ahead.append((at, point is Point.AGAIN))
        elif point is Point.UNWIND:
            self._unwind(at, {at})
            if self.code.instructions[at].op in ("FOR_ITER", "SEND"):
                self._edge(at, self.code.instructions[at].target)
        elif point is Point.THROWN:
            self._raise(at, caught=True)
        elif point is Point.FAILED:
            self._raise(at)
        elif point is Point.CLOSED:
            self._finish(at)
        elif point in (Point.RETURNED, Point.YIELDED, Point.RAISED):
            if effect.reads is not None:
                self._read(at, point)
            elif effect.calls is not None and not effect.runs_escaped:
                self._finish(at) if point is not Point.RAISED else self._raise(at)
            else:
                self._came_back(at, point)

    def _came_back(self, at: int, point: Point) -> None:
        """After something unknown ran: there may be more of it."""
        if point is Point.RAISED or self.effects[at].raises:
            self._raise(at)
        if point is not Point.RAISED or self.program.effects.names.may_swallow:
            self._others(at)
            if (called := self.effects[at].calls) is not None:
                self._enter(called, at)
            self._finish(at)

    def _read(self, at: int, point: Point) -> None:
        """After the generator that an instruction reads came back."""
        effect, one = self.effects[at], self.code.instructions[at]
        assert effect.reads is not None
        if point is Point.RAISED:
            self._raise(at)
        elif one.op == "FOR_ITER":
            if point is Point.YIELDED:
                self._edge(at, self.code.following(at))
            else:
                self._edge(at, one.target)
                if effect.reads in self.program.effects.names.returning:
                    self._raise(at, caught=True)
        elif point is Point.YIELDED:
            self._resume(effect.reads, at, closes=False)
            if effect.stops_early:
                self._resume(effect.reads, at, goes_on=False, back=Point.CLOSED)
            else:
                self._resume(effect.reads, at, goes_on=False, back=Point.FAILED)
        else:
            self._raise(at)
            self._finish(at)

    def _run(self, at: int, again: bool) -> None:
        """An instruction is reached and nothing was shown yet."""
        effect, one = self.effects[at], self.code.instructions[at]
        if effect.raises and one.op != "RAISE_VARARGS":
            self._raise(at)
        if effect.calls is not None:
            self._others(at)
            self._enter(effect.calls, at)
        elif effect.reads is not None:
            if again:
                self._resume(effect.reads, at, closes=False)
            else:
                self._enter(effect.reads, at)
        else:
            if effect.closes is not None:
                self._resume(effect.closes, at, goes_on=False, back=Point.CLOSED)
            self._others(at)
            self._finish(at)

    def _others(self, at: int) -> None:
        """All that an instruction may run and nothing says that it does."""
        effect = self.effects[at]
        for number in sorted(effect.runs):
            self._enter(number, at)
        if effect.runs_escaped:
            for number in sorted(self.program.functions | self.program.generators):
                self._enter(number, at)
            for number in sorted(self.program.generators):
                self._resume(number, at)

    def _finish(self, at: int) -> None:
        one = self.code.instructions[at]
        if one.op == "RETURN_VALUE":
            self._leave(at, one.line, Point.RETURNED)
        elif one.op == "YIELD_VALUE":
            self._leave(at, one.line, Point.YIELDED)
        elif one.op == "RAISE_VARARGS":
            if one.arg == 0:
                self._unwind(at, {at})  # what is being handled is raised again
            self._raise(at)
        elif one.op == "RERAISE":
            self._unwind(at, self.program.handlers.places(self.node.code, at))
        else:
            if one.op == "END_ASYNC_FOR":
                self._unwind(at, {at})
            self._edge(at, one.target)
            self._edge(at, self.code.following(at))

    def _unwind(self, at: int, places: Iterable[int]) -> None:
        """An exception that was shown leaves an instruction, as if from one of the places."""
        handler = self.code.instructions[at].handler
        for place in places:
            if handler is not None:
                self._edge(place, handler)
            else:
                self._leave(at, self.code.instructions[place].line, Point.RAISED)

    def _edge(self, before: int, at: int | None) -> None:
        if at is None:
            return
        one = self.code.instructions[at]
        point = Point.AGAIN if at <= before and one.op == "FOR_ITER" else Point.RUN
        if self.code.shows(before, at):
            self.options.append(Option(Step(Event.LINE, one.line), self.waiting, (Node(self.node.code, at, point),)))
        else:
            self._ahead.append((at, point is Point.AGAIN))

    def _raise(self, at: int, caught: bool | None = None) -> None:
        one = self.code.instructions[at]
        runs_code = bool(self.effects[at].runs_escaped and self.program.effects.escaped)
        caught = (
            caught
            or (one.op in ("FOR_ITER", "SEND") and (runs_code or self.program.effects.names.may_swallow))
            or self.program.handlers.catches(self.node.code, at)
        )
        unwinds = (Node(self.node.code, at, Point.UNWIND),)
        for line in self._lines(one.line):
            step = Step(Event.EXCEPTION, line)
            self.options.append(Option(step, freed(self.waiting), unwinds, caught=bool(caught)))

    def _leave(self, at: int, line: int, how: Point) -> None:
        waiting = self.waiting
        if how is Point.YIELDED:
            free = self.node.code in self.program.generators or self.program.effects.names.raises_again
            waiting = added(waiting, self.node.code, at, free)
        self.options += [Option(Step(Event.RETURN, shown), waiting, back=how) for shown in self._lines(line)]

    def _enter(self, number: int, at: int, here: Node | None = None) -> None:
        code = self.program.codes[number]
        begins = (Node(number, code.start, Point.RUN),)
        self.options.append(Option(Step(Event.CALL, code.first_line), self.waiting, begins, None, at, here))

    def _resume(
        self, number: int, at: int, goes_on: bool = True, closes: bool = True, back: Point | None = None
    ) -> None:
        """Waiting generators of a code object go on, or are closed."""
        caught = back is not Point.FAILED or self.program.handlers.catches(self.node.code, at)
        here = Node(self.node.code, at, back) if back else None
        for waiter in self.waiting:
            if waiter.code == number:
                self._wake(waiter, at, here, goes_on, closes, caught)

    def _wake(
        self, waiter: Waiter, at: int, here: Node | None, goes_on: bool, closes: bool = True, caught: bool = True
    ) -> None:
        instructions = self.program.codes[waiter.code].instructions
        nodes = [Node(waiter.code, waiter.at + 1, Point.RUN)] if goes_on else []
        if closes:
            nodes.append(Node(waiter.code, waiter.at, Point.THROWN))
            jump = instructions[waiter.at + 2] if waiter.at + 2 < len(instructions) else None
            # An exception thrown into a generator that delegates may end in the other, which then has returned.
            if jump is not None and jump.op == "JUMP_BACKWARD_NO_INTERRUPT" and jump.target is not None:
                nodes.append(Node(waiter.code, jump.target, Point.RETURNED))
        step = Step(Event.CALL, instructions[waiter.at].line)
        self.options.append(Option(step, removed(self.waiting, waiter), tuple(nodes), None, at, here, caught))

    def _drop(self) -> None:
        """Add what may run when an object is dropped: the frame then goes on as if nothing had been."""
        program, any_time = self.program, self.program.effects.names.at_any_time
        for number in program.finalizers:
            self._enter(number, self.node.at, self.node)
        closed = [Waiter(number, program.codes[number].born, True, True) for number in program.generators]
        for waiter in (*self.waiting, *closed):
            if waiter.free or any_time:
                self._wake(waiter, self.node.at, self.node, any_time and waiter not in closed)

    def _lines(self, line: int) -> Iterable[int]:
        """The lines that an instruction may show: without one of its own, the last one's."""
        return {one.line for one in self.code.instructions} - {NO_LINE} if line == NO_LINE else (line,)
