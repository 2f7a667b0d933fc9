"""Control flow: what a program's code alone says of its trace. Nothing of the program is run.

From the ground up: `bytecode` lists instructions and handlers; `known`, `names` and `effects` say which functions each may run;
`moves` which events may come next at a place (`options`); `walk` reads a trace frame by frame; `flow` is all of it, for one program.
"""

from remedy.eval.control_flow.bytecode import ControlFlowError
from remedy.eval.control_flow.flow import ControlFlow
from remedy.eval.control_flow.options import END, Step
from remedy.eval.control_flow.walk import Exceptions, Walk

__all__ = ["END", "ControlFlow", "ControlFlowError", "Exceptions", "Step", "Walk"]
