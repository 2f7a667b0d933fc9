"""Tracer of a program's run: CPython's `sys.settrace` events inside its source.

`trace` runs in this process; `sandbox.Sandbox` runs it in a limited child.
"""

from __future__ import annotations

# Without the wrappers of `signal`, which make an enum at every call; this runs for every program.
import _signal  # type: ignore[import-not-found]
import builtins
import contextlib
import sys
import types
from collections.abc import Iterator
from sys import exc_info

from remedy.data_gen.execution.clock import clock_watched
from remedy.data_gen.execution.describe import type_name
from remedy.data_gen.execution.program import EntryPoint, Event, Frame, Program, ProgramError, Trace, TraceLimits
from remedy.data_gen.execution.recorder import RUNS_LATER, Recorder

MODULE = "traced_program"
"""`__name__` of the traced module. Not `__main__`, so that a guarded script does not run before the trace starts."""
_FILE = f"<{MODULE}>"


_PLACES, _STEP = 256, 93


def trace(
    program: Program,
    limits: TraceLimits | None = None,
    depth: int | None = None,
    *,
    untrusted: bool = False,
    again: bool = False,
    plain: bool = False,
) -> Trace:
    """Run a program's marked function in this process, and record its first run.

    `depth`: the deepest recorded call level, the entry's being 0. `random` is seeded with 0. An exception that leaves the
    function ends the trace with EXCEPTION and RETURN frames.
    `untrusted`: the process is the program's own; an audit hook stays until it ends.
    `again`: a second run, with other addresses; a program that reads the clock then has no trace.
    `plain`: trace nothing; the frames are the entry's call and return.

    Raises:
        ProgramError: the program has no trace; `kind` says why.
    """
    limits = limits or TraceLimits()
    in_the_way = _objects() if again else []
    entry = program.entry_point()
    code = _compiled(program)
    recorder = Recorder(program, code, _entry_code(program, code, entry), limits, depth, untrusted)
    module = types.ModuleType(MODULE)
    module.__dict__["__builtins__"] = builtins
    modules, previous_tracer = sys.modules, sys.gettrace()
    previous_module = modules.get(MODULE)
    modules[MODULE] = module  # dataclasses, typing and enum look their module up
    try:
        clock: list[int] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(_seeded(program))
            if again and "time" in program.code:
                clock = stack.enter_context(clock_watched(_FILE))
            if not untrusted:
                stack.enter_context(_Interrupts())
                stack.callback(sys.setrecursionlimit, sys.getrecursionlimit())  # else the next program has this one's
                if "decimal" in program.code:
                    import decimal

                    stack.enter_context(decimal.localcontext())
            recorder.unreadable.start()
            describe = recorder.describe  # bound before the program may replace it
            _load(program, code, module)
            end = None
            if not plain:
                recorder.start()
            try:
                returned = module.__dict__[entry.name]()  # if it is nothing that can be called, nothing is on record
                end = describe(returned)
            except MemoryError:
                pass
            except BaseException:  # is on record, or is the recorder's own
                end = describe(exc_info())._replace(type="raised")
            finally:
                recorder.stop(previous_tracer)
    finally:
        if previous_module is None:
            modules.pop(MODULE, None)
        else:
            modules[MODULE] = previous_module
        in_the_way.clear()
    if end is None:
        raise ProgramError("memory", f"{program.name}: ran out of memory")
    if plain:
        source = program.physical_lines()[entry.line - 1]
        outer_frames = [Frame(Event.CALL, entry.line, source, {}), Frame(Event.RETURN, entry.line, source, None, end)]
        return Trace(program, outer_frames, end=end)
    traced = Trace(
        program, recorder.take_frames(), raised=recorder.raised, unreadable=recorder.unreadable.count, end=end
    )
    if clock:
        source = program.physical_lines()[clock[0] - 1].strip()
        raise ProgramError(
            "unstable", f"{program.name}: reads the clock, which says something else later, at `{source}`"
        )
    return traced


@contextlib.contextmanager
def _seeded(program: Program) -> Iterator[None]:
    if "random" not in program.code:  # to import it takes longer than to trace
        yield
        return
    import random

    state, restore = random.getstate(), random.setstate
    random.seed(0)
    try:
        yield
    finally:
        restore(state)


def _objects() -> list[object]:
    """Make objects of all small sizes and reused kinds, which take the first addresses; then free every other one."""
    # Kinds first: afterwards they would take the places that are freed below.
    objects: list[object] = [tuple(range(n, n + size)) for size in range(1, 8) for n in range(1000, 1037)]
    objects.extend(make() for make in (list, dict, set) for _ in range(137))
    for size in range(0, 256, 16):
        same_size: list[object] = [bytes(size) if size else object() for _ in range(_PLACES)]
        for position in range(0, _PLACES, 2):
            index = position * _STEP % _PLACES
            if index >= _PLACES // 2:  # the first places, which a first run took, stay taken
                same_size[index] = None
        objects.append(same_size)
    return objects


def _compiled(program: Program) -> types.CodeType:
    try:
        return compile(program.code, _FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError("syntax", f"{program.name}: does not compile: {error}") from None


def _entry_code(program: Program, code: types.CodeType, entry: EntryPoint) -> types.CodeType | None:
    """Find the marked function's code; None if the compiler left it out."""
    for constant in code.co_consts:
        if not isinstance(constant, types.CodeType) or constant.co_name != entry.name:
            continue
        last = max(line for _, _, line in constant.co_lines() if line is not None)
        if constant.co_firstlineno <= entry.line <= last:  # a decorated function's code begins at its first decorator
            if constant.co_flags & RUNS_LATER:
                raise ProgramError(
                    "entry", f"{program.name}: the marked function {entry.name} is a generator: a call runs none of it"
                )
            return constant
    return None


def _load(program: Program, code: types.CodeType, module: types.ModuleType) -> None:
    try:
        exec(code, module.__dict__)
    except MemoryError:
        raise ProgramError("memory", f"{program.name}: ran out of memory while loading") from None
    except BaseException as error:
        kind = type_name(type(error))
        try:
            message = f": {error}"
        except BaseException:  # what an exception says of itself is the program's code too
            message = ""
        raise ProgramError("raised", f"{program.name}: raised {kind} while loading{message}") from None


class _Interrupts:
    """Context that tells a user's interrupt from the program's own."""

    def __enter__(self) -> None:
        self.interrupted = False
        self.replaced = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        if self.replaced:
            try:
                _signal.signal(_signal.SIGINT, self._note)
            except ValueError:  # in another thread than the main one, which is the one that is interrupted
                self.replaced = False

    def __exit__(self, *_: object) -> None:
        if self.replaced:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        if self.interrupted:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self.interrupted = True
        raise KeyboardInterrupt
