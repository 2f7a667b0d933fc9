"""Control flow: what a program's code alone says about its trace. Nothing runs.

`bytecode` lists instructions, which `reading` gets from the right interpreter; `effects` says which functions each may run; `flow`
follows a trace.
"""

from remedy.eval.control_flow.bytecode import ControlFlowError
from remedy.eval.control_flow.flow import END, ControlFlow, Exceptions, Step, Walk

__all__ = ["END", "ControlFlow", "ControlFlowError", "Exceptions", "Step", "Walk"]
