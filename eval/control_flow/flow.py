"""Control flow of one program: a superset of the traces that its code allows.

A stack of frames follows the events of CPython 3.11's `sys.settrace`:

- LINE fires at an instruction whose line differs, after a backward jump (except SEND), or at the frame's beginning.
- CALL shows the line of the RESUME reached: a function's first, or a generator's after its `yield`. Making a generator
  fires nothing; closing one fires CALL, EXCEPTION and RETURN, even if it never ran.
- EXCEPTION fires once per frame, at the raising line; a re-raise fires none. Leaving a frame by an exception fires
  RETURN.
- A loop or delegation fires EXCEPTION and continues if a raised StopIteration ends its iterator.

(`Python/ceval.c` of 3.11: `maybe_call_line_trace`, `call_exc_trace`, `FOR_ITER`, `SEND`, `exception_unwind`.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from enum import Enum
from functools import cache
from typing import Literal, NamedTuple

from remedy.data_gen.execution.program import Event, Program
from remedy.eval.control_flow.bytecode import NO_LINE, Instruction
from remedy.eval.control_flow.effects import Effects
from remedy.eval.control_flow.reading import bytecode_of

Exceptions = Literal["all", "caught"]


class Step(NamedTuple):
    """Event and physical line of a frame, from 1; the trace's end has neither."""

    event: Event | None
    line: int


END = Step(None, 0)


class Mode(Enum):
    """State of a frame at an instruction."""

    RUN = 0
    """The instruction runs next."""
    CALLS = 1
    """The instruction has called another frame."""
    BACK = 2
    """The called frame has returned or yielded."""
    FAILED = 3
    """The called frame has raised."""
    UNWIND = 4
    """The instruction raised, and EXCEPTION was shown."""
    THROWN = 5
    """An exception is thrown into the waiting frame."""

    # Enum's own hash is a Python function, and sets of points ask for it at every step.
    __hash__ = object.__hash__


class Point(NamedTuple):
    code: int
    position: int
    mode: Mode = Mode.RUN


OUTSIDE = Point(0, 0)
"""Caller of the entry."""


class Option(NamedTuple):
    """Event that may come next."""

    step: Step
    frame: Point | None = None
    """Point that runs then; None: this frame is left."""
    caller: Point | None = None
    """This frame as it waits, if it calls another."""
    raises: bool = False
    """Whether the frame is left by an exception."""
    caught: bool = True
    """Whether a raised exception may end in this frame."""


class Stack(NamedTuple):
    """Stack of frames, each with all points that agree with the trace."""

    top: frozenset[Point]
    below: Stack | None = None
    stops: bool = False
    """Whether an exception that leaves the top may end below it."""


class ControlFlow:
    """Control flow of a program: which events and lines may follow a trace.

    It holds for traces of CPython 3.11 with all calls shown. Unmodelled code may do anything but three things:
    RecursionError and MemoryError where nothing else raises, names composed at run time, and a generator that a signal handler
    closes as it resumes.

    `python`: as in `tracer.python`; None: this interpreter.

    Raises:
        ConfigError: there is no such interpreter.
        ControlFlowError: it is not CPython 3.11, or the marked function is not in the bytecode.
        ProgramError: the program does not compile or has no entry point.
    """

    def __init__(self, program: Program, python: str | None = None) -> None:
        bytecode = bytecode_of(program, python)
        self.program, self.codes = program, bytecode.codes
        self.entry, self.effects = bytecode.entry, Effects(bytecode)
        self.called, self.closed = defaultdict[Step, set[Point]](set), defaultdict[Step, set[Point]](set)
        """By step, points that unknown code may call, and generators that may be closed at any moment, when their last reference
        goes."""
        for step, point in (entry for number in self.effects.escaped for entry in self.entries(number)):
            self.called[step].add(point)
            if point.mode is Mode.THROWN:
                self.closed[step].add(point)
        self.successors = cache(lambda point: Successors(self, point))
        self.catches = cache(self._catches)
        self._lines = program.physical_lines()

    def start(self, exceptions: Exceptions = "all") -> Walk:
        """Return the walk before the first frame, which is the entry's CALL.

        `exceptions`: `all` allows all that cannot be excluded. `caught`, for programs whose entry returns, allows those with a
        possible handler, unless nothing else can come.
        """
        return Walk(self, Stack(frozenset({OUTSIDE})), exceptions)

    def source(self, step: Step) -> str:
        """Return the source line of a step; empty at the end."""
        return self._lines[step.line - 1] if step.event is not None else ""

    def call(self, number: int) -> tuple[Step, Point]:
        """Return the first step and point of a call."""
        code = self.codes[number]
        return Step(Event.CALL, code.instructions[code.start].line), Point(number, code.start)

    def entries(self, number: int) -> Iterator[tuple[Step, Point]]:
        """Yield first steps and points of a call, or of a resumed generator."""
        yield self.call(number)
        instructions = self.codes[number].instructions
        for index, instruction in enumerate(instructions):
            step = Step(Event.CALL, instruction.line)
            if instruction.op in ("YIELD_VALUE", "RETURN_GENERATOR"):
                yield step, Point(number, index, Mode.THROWN)
            if instruction.op == "YIELD_VALUE":
                yield step, Point(number, index + 1)
            # An exception thrown into a delegating generator may end in the inner one, which then has returned.
            if instruction.op == "JUMP_BACKWARD_NO_INTERRUPT" and instruction.target is not None:
                step = Step(Event.CALL, instructions[index - 2].line)  # that of the delegation's YIELD_VALUE
                yield step, Point(number, instruction.target, Mode.BACK)

    def stops(self, caller: Point) -> bool:
        """Return whether a callee's exception may end in the caller or in unknown code."""
        if caller.mode is not Mode.CALLS or not caller.code:
            return caller.code > 0
        instruction = self.codes[caller.code].instructions[caller.position]
        unknown = self.effects.certain(instruction) is None and self.effects.may_swallow
        return unknown or self.catches(caller.code, instruction.handler)

    def _catches(self, number: int, handler: int | None) -> bool:
        """Return whether an exception may end in a frame with this handler."""
        code, seen, ahead = self.codes[number], set[int](), [handler]
        for index in ahead:  # which grows meanwhile
            if index is not None and index not in seen:
                seen.add(index)
                instruction = code.instructions[index]
                if instruction.op in ("RETURN_VALUE", "YIELD_VALUE"):
                    return True
                ahead += (code.following(index), instruction.target, instruction.handler)
        return False


class Successors:
    """Events that may come next at a point."""

    def __init__(self, flow: ControlFlow, point: Point) -> None:
        self.flow, self.effects = flow, flow.effects
        self.number, self.code = point.code, flow.codes[point.code]
        self.options: list[Option] = []
        self.callers: set[Point] = set()
        """This frame as it waits for escaped functions that it may call."""
        if point == OUTSIDE:
            self.options.append(Option(*flow.call(flow.entry), OUTSIDE._replace(mode=Mode.CALLS)))
        elif not point.code:
            end = Option(END, OUTSIDE._replace(mode=Mode.UNWIND))
            self.options += [end] if point.mode is not Mode.UNWIND else []
        else:
            seen, self._ahead = set[int](), list[int]()
            self._run(point.position, point.mode)
            for index in self._ahead:
                if index not in seen:
                    seen.add(index)
                    self._run(index, Mode.RUN)

    def _run(self, index: int, mode: Mode) -> None:
        instruction = self.code.instructions[index]
        certain = self.effects.certain(instruction)
        waits = Point(self.number, index, Mode.CALLS)
        if mode is Mode.UNWIND:
            self._unwind(index, instruction)
            if instruction.op in ("FOR_ITER", "SEND"):
                self._go(index, instruction.target)
            return
        if mode in (Mode.THROWN, Mode.FAILED):
            self._raise(index, instruction, caught=mode is Mode.THROWN)
            if mode is Mode.THROWN or certain is not None or not self.effects.may_swallow:
                return
        elif self.effects.raises(instruction) and (certain is None or mode is Mode.RUN):
            self._raise(index, instruction)
        if certain is not None and mode is Mode.RUN:
            self.options.append(Option(*self.flow.call(certain), waits))
            return
        if certain is None:
            given = self.effects.given(instruction)
            for step, frame in (entry for number in given for entry in self.flow.entries(number)):
                closes = frame.mode is Mode.THROWN  # closing a generator raises nothing here
                self.options.append(Option(step, frame, waits._replace(mode=Mode.BACK) if closes else waits))
            if self.effects.opens(instruction):
                self.callers.add(waits)
        self._finish(index, instruction)

    def _finish(self, index: int, instruction: Instruction) -> None:
        """Add what may come after all calls of an instruction."""
        if instruction.op in ("RETURN_VALUE", "YIELD_VALUE"):
            self._leave(instruction.line, raises=False)
        elif instruction.op == "RAISE_VARARGS":
            if instruction.arg == 0:
                self._unwind(index, instruction)  # a bare raise repeats the handled exception
            self._raise(index, instruction)
        elif instruction.op == "RERAISE" and instruction.handler is None:
            self._leave(NO_LINE, raises=True)  # the event shows this line or that of the first raise
        elif instruction.op == "RERAISE":
            self._go(self.code.start, instruction.handler)
            self._ahead.append(instruction.handler or 0)
        else:
            if instruction.op == "END_ASYNC_FOR":
                self._unwind(index, instruction)
            self._go(index, instruction.target)
            self._go(index, self.code.following(index))

    def _unwind(self, index: int, instruction: Instruction) -> None:
        """Let a shown exception leave an instruction."""
        if instruction.handler is None:
            self._leave(instruction.line, raises=True)
        self._go(index, instruction.handler)

    def _go(self, before: int, index: int | None) -> None:
        if index is not None and self.code.shows(before, index):
            line = self.code.instructions[index].line
            self.options.append(Option(Step(Event.LINE, line), Point(self.number, index)))
        elif index is not None:
            self._ahead.append(index)

    def _raise(self, index: int, instruction: Instruction, caught: bool = False) -> None:
        reads = instruction.op in ("FOR_ITER", "SEND") and (self.effects.may_swallow or bool(self.effects.escaped))
        caught = caught or reads or self.flow.catches(self.number, instruction.handler)
        unwinds = Point(self.number, index, Mode.UNWIND)
        lines = self._lines(instruction.line)
        self.options += [Option(Step(Event.EXCEPTION, line), unwinds, caught=caught) for line in lines]

    def _leave(self, line: int, raises: bool) -> None:
        self.options += [Option(Step(Event.RETURN, shown), raises=raises) for shown in self._lines(line)]

    def _lines(self, line: int) -> Iterable[int]:
        """Return the lines that an instruction may show: any, if it has none."""
        return {other.line for other in self.code.instructions} - {NO_LINE} if line == NO_LINE else (line,)


class Walk:
    """All stacks that agree with the frames so far. Immutable."""

    def __init__(self, flow: ControlFlow, stack: Stack, exceptions: Exceptions) -> None:
        self.flow, self._stack, self._exceptions = flow, stack, exceptions
        successors = [flow.successors(point) for point in stack.top]
        self._options = [option for point_successors in successors for option in point_successors.options]
        if exceptions == "caught" and not stack.stops:
            caught = [option for option in self._options if option.caught]
            self._options, self._exceptions = (caught, exceptions) if caught else (self._options, "all")
        callers = frozenset(caller for point_successors in successors for caller in point_successors.callers)
        calls = ((callers if flow.effects.plain else stack.top, flow.called), (stack.top, flow.closed))
        self._calls = calls if stack.below is not None else ()
        """Waiting frames and what each may call. A frame that calls nothing itself continues as if nothing had been called."""

    def allowed(self) -> frozenset[Step]:
        """Return every event and line that can come next.

        With exceptions `caught`, those that nothing can catch are left out unless nothing else remains.
        """
        known = frozenset(option.step for option in self._options)
        return known.union(*(called for callers, called in self._calls if callers))

    def advance(self, steps: Set[Step]) -> Walk | None:
        """Return the walk after one of these steps, all of one event; None if none is allowed."""
        chosen = [option for option in self._options if option.step in steps]
        top = {option.frame for option in chosen if option.frame is not None}
        callers = {option.caller for option in chosen if option.caller is not None}
        for waiting, called in self._calls:
            for step in called.keys() & steps if waiting else ():
                top |= called[step]
                callers |= waiting
        stack = self._stack
        if callers:
            stops = stack.stops or any(map(self.flow.stops, callers))
            return self._with(Stack(frozenset(top), stack._replace(top=frozenset(callers)), stops))
        if top:
            return self._with(stack._replace(top=frozenset(top)))
        if not chosen or stack.below is None:
            return None
        modes = {Mode.FAILED if option.raises else Mode.BACK for option in chosen}
        back = {
            point._replace(mode=mode) if point.mode is Mode.CALLS else point
            for point in stack.below.top
            for mode in modes
        }
        return self._with(stack.below._replace(top=frozenset(back)))

    def after(self, event: Event | None, source: str) -> Walk | None:
        """Return the walk after a frame, by event and line text; None if not allowed."""
        return self.advance(
            {step for step in self.allowed() if (step.event, self.flow.source(step)) == (event, source)}
        )

    def _with(self, stack: Stack) -> Walk:
        return Walk(self.flow, stack, self._exceptions)
