"""The control flow of one program: every trace that its code allows, and perhaps more."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from remedy.data_gen.execution import isolation, program
from remedy.data_gen.execution.program import Event, Program, ProgramError
from remedy.eval.control_flow.bytecode import Bytecode, Code, ControlFlowError, Instruction, read_bytecode
from remedy.eval.control_flow.effects import Effects
from remedy.eval.control_flow.moves import Moves
from remedy.eval.control_flow.names import Names
from remedy.eval.control_flow.options import Step
from remedy.eval.control_flow.walk import Exceptions, Walk
from remedy.processes import ask
from remedy.settings import ConfigError

# Reading needs two modules of this package and nothing that is installed, so any interpreter can do it.
_READ = """
import json, sys, types
paths = {"remedy": [], "remedy.data_gen": [], "remedy.data_gen.execution": [sys.argv[1]], "remedy.eval.control_flow": [sys.argv[2]]}
for name, path in paths.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
from remedy.eval.control_flow.bytecode import ControlFlowError, read_bytecode
from remedy.data_gen.execution.program import Program, ProgramError
try:
    reply = {"bytecode": read_bytecode(Program(**json.load(sys.stdin)))}
except ControlFlowError as error:
    reply = {"control_flow": str(error)}
except ProgramError as error:
    reply = {"program": [error.kind, str(error)]}
json.dump(reply, sys.stdout)
"""


class ControlFlow:
    """Says of a program which event, at which line, can follow the frames of a trace so far.

    It holds for traces that the tracer makes under CPython 3.11, all calls shown. What is not modelled may do anything. Not allowed
    are only RecursionError and MemoryError where nothing else is raised, what a program does to names that it puts together at run
    time, and a generator that the handler of a signal ends in the moment in which it goes on.

    `python`: the interpreter that runs programs, as `tracer.python` names it; None: ours.

    Raises:
        ConfigError: there is no such interpreter.
        ControlFlowError: it is not CPython 3.11, or the marked function is not in the bytecode.
        ProgramError: the program does not compile or has no entry point.
    """

    def __init__(self, program: Program, python: str | None = None) -> None:
        bytecode = _bytecode_of(program, python)
        self.program = program
        self.entry = bytecode.codes[bytecode.entry]
        """The code of the marked function."""
        self.moves = Moves(bytecode, Effects(bytecode, Names(bytecode)))
        self._lines = program.physical_lines()

    def start(self, exceptions: Exceptions = "all") -> Walk:
        """Before the first frame, which is the entry's CALL.

        `exceptions`: `all` may be raised wherever they cannot be excluded. `caught` holds for programs whose entry returns: one is
        raised where something may catch it, or where nothing else can come.
        """
        return Walk.start(self.moves, self.entry.number, exceptions)

    def source(self, step: Step) -> str:
        """The line of a step as a frame shows it; empty at the end."""
        return self._lines[step.line - 1] if step.event is not None else ""

    def candidates(self, walk: Walk) -> dict[tuple[Event | None, str], set[Step]]:
        """Return what may come next as frames show it: lines with the same text are not told apart."""
        found: dict[tuple[Event | None, str], set[Step]] = {}
        for step in walk.allowed():
            found.setdefault((step.event, self.source(step)), set()).add(step)
        return found

    def advance(self, walk: Walk, event: Event | None, source: str) -> Walk | None:
        """After a frame as it shows itself; None if the program does not allow it there."""
        steps = self.candidates(walk).get((event, source))
        return None if steps is None else walk.advance(steps)


def _bytecode_of(one: Program, python: str | None) -> Bytecode:
    """A program's bytecode, as the interpreter `python` compiles it (None: ours), which may be another than runs here."""
    interpreter = isolation.find_interpreter(python).path
    if interpreter == sys.executable:
        return read_bytecode(one)
    folders = [str(Path(module).resolve().parent) for module in (program.__file__, __file__)]
    asked = json.dumps({"code": one.code, "name": one.name})
    try:
        reply = json.loads(ask(interpreter, _READ, *folders, given=asked))
    except ConfigError as error:
        raise ControlFlowError(f"{one.name}: its bytecode could not be read: {error}") from None
    if "bytecode" not in reply:
        if "program" in reply:
            raise ProgramError(*reply["program"])
        raise ControlFlowError(f"tracer.python: {reply['control_flow']}")
    codes, entry = reply["bytecode"]
    return Bytecode([_code(code) for code in codes], entry)


def _code(fields: list[Any]) -> Code:
    code = Code._make(map(_tuple, fields))
    return code._replace(instructions=[Instruction._make(one) for one in code.instructions])


def _tuple(field: Any) -> Any:
    return tuple(field) if isinstance(field, list) else field
