"""Recorder of a program's frames, and checks of whether the record can be believed.

A program shares the process with its tracer, and can change functions and the record. So what recording needs is bound
before it runs; afterwards the functions and a seal over the frames are compared. A program that undoes its changes in time
is not noticed: a state is the program's own word.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Generator
from opcode import opmap
from operator import is_
from typing import Any, NoReturn

from remedy.data_gen.execution import describe as describing
from remedy.data_gen.execution.line_order import IS_KNOWN, LineOrder
from remedy.data_gen.execution.program import Event, Frame, Program, ProgramError, TraceLimits, can_be_name
from remedy.data_gen.execution.unreadable import INTERRUPTED, Unreadable

_Function = Callable[[types.FrameType, str, Any], Any]
_FUNCTION = types.FunctionType
RUNS_LATER = 0x20 | 0x80 | 0x200  # a generator's, coroutine's or asynchronous generator's code: a call runs none of it
_AWAITABLE = 0x100  # set by `types.coroutine` in a copy of a generator's code
_OPTIMIZED = 0x1  # the locals of such code are slots with names that the compiler knows; a class body's are any mapping


class Stop(BaseException):
    """End of a program from inside the trace function.

    A BaseException, so that most programs do not catch it.
    """


class Recorder:
    """Recorder of the first run of a program's entry.

    `code`: the compiled program; `entry`: the marked function's part. `depth`: the deepest recorded call level, the entry's being
    0. `sealed`: the program is untrusted.
    """

    def __init__(
        self,
        program: Program,
        code: types.CodeType,
        entry: types.CodeType | None,
        limits: TraceLimits,
        depth: int | None,
        sealed: bool,
    ) -> None:
        self._program = program
        self._describe = describing.attributes_describer(program.code) if limits.attributes else describing.describe
        self.describe = describing.end_describer(self._describe)
        self._settrace, self._gettrace = sys.settrace, sys.gettrace
        self._most_characters = limits.output
        self._error: ProgramError | None = None
        self._builtins = dict(builtins.__dict__) if sealed else {}
        self._finished = False
        self._dropped = False
        self.raised = False
        """Whether an exception left the entry."""
        self.unreadable = Unreadable(not limits.unreadable)
        self._starved = False
        """Whether the stack was too full to record a frame."""
        self._tracer_left: object = None
        self._frames: list[Frame] = []
        self._sealer = _sealer() if sealed else None
        self._steps: set[tuple[int, int, int]] = set()  # code, a line of it, the next one
        self._file = code.co_filename
        self._codes = {id(part): part for part in _parts(code)}
        self._copies: dict[int, types.CodeType] = {}
        """Copies of the program's code, as `types.coroutine` makes, kept so that their ids stay theirs; `_codes` has the originals."""
        self._enter, self._stop, functions = self._trace_functions(
            entry, limits.frames, sys.maxsize if depth is None else depth
        )
        self._functions = functions
        self._before = _state(functions) if sealed else []

    def start(self) -> None:
        if self._sealer is not None:
            self._refuse_other_tracers()
        self._settrace(self._enter)

    def stop(self, tracer: Any) -> None:
        """End recording, and restore `tracer` as trace function."""
        self._tracer_left = self._gettrace()
        self._settrace(tracer)
        if self._sealer is not None:
            builtins.__dict__.update(self._builtins)  # what follows needs them

    def _refuse_other_tracers(self) -> None:
        """Stop the program if it calls `sys.settrace`."""
        caller, refuse, identity, limit = sys._getframe, self._stop, id, sys.getrecursionlimit()
        functions: tuple[Any, ...] = (*self._functions, Recorder.start, Recorder.stop)
        own_codes = {id(function.__code__) for function in functions}

        def hook(event: str, _: tuple[Any, ...]) -> None:
            # Python itself takes away a trace function that raises, as ours does when it has stopped the program, or that
            # cannot be called for want of stack.
            if event != "sys.settrace" or self._error is not None or identity(caller(1).f_code) in own_codes:
                return
            depth, frame = 0, caller(1).f_back
            while frame is not None:
                depth, frame = depth + 1, frame.f_back
            if depth < limit // 4:
                if self.unreadable.is_interrupted():
                    refuse("killed", INTERRUPTED)
                refuse("forged", "changed how it is traced: it called sys.settrace")
            self._dropped = True

        sys.addaudithook(hook)

    def take_frames(self) -> list[Frame]:
        """Return the recorded frames, and forget them.

        Raises:
            ProgramError: the record is not complete, or cannot be believed.
        """
        if self._error is not None:
            raise self._error
        if not self._frames:
            raise self._problem(
                "entry", "the marked function is not what its name stands for: running it ran nothing of it"
            )
        if not self._finished:
            if (
                self._tracer_left is None or self._starved
            ):  # Python drops a trace function that cannot be called for want of stack
                raise self._problem("recursion", "recursed too deeply to be traced, or switched its tracing off")
            raise self._problem("forged", "changed how it is traced: its entry's return is not on record")
        if self._dropped:  # Python does not take one up again that it dropped
            raise self._problem("forged", "changed how it is traced: it called sys.settrace")
        if self._sealer is not None:
            after = _state(self._functions)
            if len(after) != len(self._before) or not all(map(is_, after, self._before)):
                raise self._problem("forged", "changed the functions that trace it")
            try:
                self._compare(self._sealer)
            except ProgramError:
                raise
            except Exception:  # what it put there is not what it compares
                raise self._problem("forged", "changed the record of its own run") from None
        frames = self._frames[:]
        self._frames.clear()  # the trace functions refer to each other, and would keep frames until the collector runs
        return frames

    def _compare(self, sealer: Generator[int, Any, None]) -> None:
        again, characters = _sealer(), 0
        for frame in self._frames:
            again.send(_sealed(frame))
            values = frame.locals.values() if frame.locals is not None else (frame.value,)
            characters += sum([len(value.text) for value in values if value is not None])
        orders = {code: LineOrder(self._codes[code]) for code in {code for code, _, _ in self._steps}}
        if not all(orders[code].allows(line, following) for code, line, following in self._steps):
            raise self._problem("forged", "hid lines that ran: no code of it runs these lines one after the other")
        if again.send(None) != sealer.send(None):
            raise self._problem("forged", "changed the record of its own run")
        if characters > self._most_characters:
            raise self._problem("forged", "changed the count of what is recorded")

    def _original(self, code: types.CodeType) -> types.CodeType | None:
        for own_code in self._codes.values():
            if code.replace(co_flags=code.co_flags & ~_AWAITABLE, co_name=own_code.co_name) == own_code:
                self._copies[id(code)] = code
                self._codes[id(code)] = own_code
                return own_code
        return None

    def _problem(self, kind: str, message: str) -> ProgramError:
        return ProgramError(kind, f"{self._program.name}: {message}")

    def _trace_functions(
        self, entry: types.CodeType | None, most_frames: int, deepest: int
    ) -> tuple[_Function, Callable[[str, str], NoReturn], tuple[types.FunctionType, ...]]:
        """Make the trace function, the one that ends the program, and list all."""
        # Closures, since they run at every line: a local is found faster than an attribute, and no program can replace it.
        identity, length, settrace, gettrace, later = id, len, self._settrace, self._gettrace, RUNS_LATER
        describe, items, original, instead = self._describe, _class_items, self._original, self.unreadable.instead
        file = self._file
        lines, codes, frames = tuple(self._program.physical_lines()), self._codes, self._frames
        seal = self._sealer.send if self._sealer is not None else None
        steps = self._steps if self._sealer is not None and IS_KNOWN else None
        most_characters, new_frame = self._most_characters, Frame
        call, line_event, returned, raised = Event.CALL, Event.LINE, Event.RETURN, Event.EXCEPTION
        leaving = [opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in opmap]
        active: list[types.FrameType] = []  # the recorded calls that have not returned
        latest: list[int] = []  # the line that each of them is at
        written = 0

        def stop(kind: str, message: str) -> NoReturn:
            self._error = self._problem(kind, message)
            settrace(None)
            raise Stop

        def enter(frame: types.FrameType, event: str, arg: Any) -> Any:
            code = codes.get(identity(frame.f_code))
            if code is None and frame.f_code.co_filename != file:
                return None
            code = code or original(frame.f_code)
            if not active:
                if code is not entry:
                    return None
            elif code is None:
                if seal is None and frame.f_globals is not active[0].f_globals:
                    return None  # an earlier program left it in this process
                stop("forged", "runs code under its own file's name that its source does not have")
            elif length(active) > deepest:
                if frame.f_trace is not None:
                    frame.f_trace = None  # of a generator that ran less deep before
                return None
            active.append(frame)
            latest.append(frame.f_lineno)
            try:
                return record(frame, "call", None)
            except RecursionError:
                self._starved = True
                raise

        def record(frame: types.FrameType, event: str, arg: Any) -> Any:
            nonlocal written
            if not active or active[-1] is not frame:
                if self._starved:
                    stop("recursion", "recursed too deeply to be traced")
                if frame.f_code.co_flags & later and frame not in active:
                    stop("resumed", "a generator goes on without a call, after an exception in what it delegates to")
                stop("forged", "changed how it is traced: its calls and returns do not nest")
            if length(frames) >= most_frames:
                stop("frames", f"stopped after {most_frames} frames")
            line = frame.f_lineno
            if steps is not None and line != latest[-1]:
                if event == "line":
                    steps.add((identity(codes[identity(frame.f_code)]), latest[-1], line))
                elif event == "return" and line is not None and frame.f_code.co_code[frame.f_lasti] in leaving:
                    stop("forged", "hid lines that ran: it returns from another line than it was at")
            if line is None:  # code that the compiler made up, at the end of an `except*`
                line = latest[-1]
            else:
                latest[-1] = line
            source = lines[line - 1]
            try:
                if event == "line" or event == "call":
                    shown = {}
                    known = frame.f_locals
                    for name, value in known.items() if frame.f_code.co_flags & _OPTIMIZED else items(known):
                        try:
                            described = describe(value)
                        except Exception as error:
                            described = instead(value, error, frame)
                        shown[name] = described
                        written += length(described.text)
                    recorded = new_frame(line_event if event == "line" else call, line, source, shown)
                    if seal is not None:
                        seal((recorded.event, line, tuple(shown.items())))
                elif event == "return" or event == "exception":
                    try:
                        result = describe(arg)
                    except Exception as error:
                        result = instead(arg, error, frame)
                    written += length(result.text)
                    recorded = new_frame(returned if event == "return" else raised, line, source, None, result)
                    if seal is not None:
                        seal((recorded.event, line, result))
                else:
                    stop("forged", "changed how it is traced: it asked for more than lines")
            except Stop:
                raise
            except BaseException as error:
                stop(*self.unreadable.why(error, source.strip()))
            if written > most_characters:
                stop("output", f"stopped after {most_characters} characters of values")
            frames.append(recorded)
            if event == "return":
                active.pop()
                latest.pop()
                if not active:
                    if gettrace() is not enter:
                        stop("forged", "changed how it is traced: another function traced it")
                    self._finished = True
                    self.raised = frame.f_code.co_code[frame.f_lasti] not in leaving
                    settrace(None)
            return record

        functions = (enter, record, stop, describe, items, Recorder._original, self.describe, Unreadable.instead)
        return enter, stop, tuple(function for function in functions if isinstance(function, types.FunctionType))


def _class_items(known: Any) -> list[tuple[str, Any]]:
    pairs = dict.items(known) if isinstance(known, dict) else [(name, known[name]) for name in known]
    return [(name, value) for name, value in list(pairs) if type(name) is str and can_be_name(name)]


def _parts(code: types.CodeType) -> list[types.CodeType]:
    codes = [code]
    for part in codes:
        codes += [constant for constant in part.co_consts if isinstance(constant, types.CodeType)]
    return codes


def _sealed(frame: Frame) -> tuple[Any, ...]:
    if frame.locals is not None:
        return frame.event, frame.line, tuple(frame.locals.items())
    return frame.event, frame.line, frame.value


def _sealer() -> Generator[int, Any, None]:
    """Start a running hash, in a generator's local that nothing outside can set."""

    def running() -> Generator[int, Any, None]:
        digest, total = hash, 0
        while True:
            total = digest((total, (yield total)))

    sealer = running()
    next(sealer)
    return sealer


def _state(functions: tuple[types.FunctionType, ...]) -> list[object]:
    """List the objects that functions consist of, to notice replacements."""
    state: list[object] = [Event.__hash__]
    watched: list[Any] = [*functions, Frame.__init__]
    for function in watched:
        state += [function.__code__, function.__defaults__, function.__kwdefaults__]
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        contents = [cell.cell_contents for name, cell in cells if name != "written"]
        state += contents
        watched += [inner for inner in contents if type(inner) is _FUNCTION and inner not in watched]
    return state
