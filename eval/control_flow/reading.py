"""Bytecode of a program, read by the interpreter that runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from remedy.data_gen.execution import isolation
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.eval.control_flow.bytecode import Bytecode, Code, ControlFlowError, Instruction, read_bytecode
from remedy.processes import ask
from remedy.settings import ConfigError

# Imports two modules of this package and nothing installed, so that any interpreter can run it.
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


def bytecode_of(program: Program, python: str | None) -> Bytecode:
    """Return a program's bytecode as the interpreter `python` (None: this one) compiles it.

    Raises:
        ControlFlowError: it cannot be read.
        ProgramError: the program does not compile or has no entry point.
    """
    interpreter = isolation.find_interpreter(python).path
    if interpreter == sys.executable:
        return read_bytecode(program)
    folders = [str(Path(module).resolve().parent) for module in (isolation.__file__, __file__)]
    request = json.dumps({"code": program.code, "name": program.name})
    try:
        reply = json.loads(ask(interpreter, _READ, *folders, given=request))
    except ConfigError as error:
        raise ControlFlowError(f"{program.name}: its bytecode could not be read: {error}") from None
    if "bytecode" not in reply:
        if "program" in reply:
            raise ProgramError(*reply["program"])
        raise ControlFlowError(f"tracer.python: {reply['control_flow']}")
    codes, *rest = reply["bytecode"]
    return Bytecode(
        [Code([Instruction(*instruction) for instruction in instructions], start) for instructions, start in codes],
        *rest,
    )
