"""Control flow by the written state: lines are evaluated on what a trace shows, as data.

From the ground up: `values` says what may be known of a value; `operators`, `builtins` and `iteration` compute with what is; `line`
gathers what may come next while `evaluated`, `containers`, `calls` and `instructions` take one instruction after another; `guide`
follows a trace, `shown` says what its next frame shows that need not be computed, `contradiction` whether it contradicts itself.
"""

from remedy.eval.control_flow.evaluator.contradiction import Checked, Contradiction, against_state, check
from remedy.eval.control_flow.evaluator.guide import Guide
from remedy.eval.control_flow.evaluator.shown import Shown

__all__ = ["Checked", "Contradiction", "Guide", "Shown", "against_state", "check"]
