"""Control flow: what a program's code alone says of its trace. Nothing of the program is run.

From the ground up: `bytecode` lists instructions, and `reading` asks the right interpreter for them; `effects` says which functions
each may run; `flow` follows a trace.
"""

from remedy.eval.control_flow.bytecode import ControlFlowError
from remedy.eval.control_flow.flow import END, ControlFlow, Exceptions, Step, Walk

__all__ = ["END", "ControlFlow", "ControlFlowError", "Exceptions", "Step", "Walk"]
