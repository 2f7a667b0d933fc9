"""Control flow by the written state: a program's source is evaluated, line by line, on what a trace shows, as data.

From the ground up: `values` says what may be known of a value; `pure` computes with what is; `frame` evaluates expressions of the
syntax tree and says what is known no more once something has changed; `source` finds the expressions of instructions; `line` gathers
what may come next while `instructions` take one after another; `guide` follows a trace and says what its next frame shows that need
not be computed, `contradiction` whether it contradicts itself.
"""

from remedy.eval.control_flow.evaluator.contradiction import Checked, check
from remedy.eval.control_flow.evaluator.guide import Guide, Shown

__all__ = ["Checked", "Guide", "Shown", "check"]
