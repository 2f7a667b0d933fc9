"""Bytecode as the interpreter compiles it that runs the programs, which may be another one than ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from remedy.data_gen.execution import isolation, program
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.eval.control_flow.bytecode import Bytecode, Code, ControlFlowError, Instruction, read_bytecode

_SECONDS = 60
# Reading needs two modules of this package and nothing that is installed, so any interpreter can do it.
_READ = """
import json, sys, types
paths = {"remedy": [], "remedy.data_gen": [], "remedy.data_gen.execution": [sys.argv[1]], "remedy.eval.control_flow": [sys.argv[2]]}
for name, path in paths.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = path
sys.path = [path for path in sys.path if path]
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


def bytecode_of(one: Program, python: str | None) -> Bytecode:
    """A program's bytecode, as `read_bytecode` gives it in the interpreter `python` (a path or a name; None: ours).

    Raises:
        ConfigError: there is no such interpreter.
        ControlFlowError: its traces are others than CPython 3.11's, or the program's control flow cannot be read.
        ProgramError: the program does not compile or has no entry point.
    """
    interpreter = isolation.find_interpreter(python).path
    if interpreter == sys.executable:
        return read_bytecode(one)
    folders = [str(Path(module).resolve().parent) for module in (program.__file__, __file__)]
    asked = json.dumps({"code": one.code, "name": one.name})
    command = [interpreter, "-s", "-c", _READ, *folders]
    done = subprocess.run(command, input=asked, capture_output=True, encoding="utf-8", timeout=_SECONDS, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise ControlFlowError(f"{one.name}: its bytecode could not be read with {interpreter}: {last[0]}")
    reply = json.loads(done.stdout)
    if "bytecode" not in reply:
        if "program" in reply:
            raise ProgramError(*reply["program"])
        raise ControlFlowError(f"tracer.python: {reply['control_flow']}")
    codes, entry = reply["bytecode"]
    return Bytecode([_code(code) for code in codes], entry)


def _code(fields: list[Any]) -> Code:
    """A code object as JSON has it."""
    code = Code._make(tuple(one) if isinstance(one, list) else one for one in fields)
    return code._replace(instructions=[Instruction._make(one) for one in code.instructions])
