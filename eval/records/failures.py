"""Classes of failures: one per example, from the first frame that differs from the truth.

An example with a wrong answer has the first class that fits:

1. `truncated`: the true trace has more tokens than may be written, or the program runs too long to be traced.
2. `runaway`: the model left the truth and wrote until its tokens ran out.
3. By the first frame that differs, read in the order in which it is written:
   - `malformed`: it cannot be read, or the trace stops there.
   - `wrong action`: its event differs, or its source line while the state is right; or the trace goes on after the true
     end.
   - `wrong query`: it asks for another state.
   - `wrong state`: its locals differ. With the type of the first wrong variable's true value, or `names` if a variable
     is missing or made up.
   - `wrong return`: only the returned or raised value differs.

Lost state shows as `wrong state` or `wrong return`; alone where actions are fed.
"""

from __future__ import annotations

from enum import StrEnum


class Failure(StrEnum):
    """Classes of failures, in the order of reports."""

    TRUNCATED = "truncated"
    RUNAWAY = "runaway"
    MALFORMED = "malformed"
    WRONG_ACTION = "wrong action"
    WRONG_QUERY = "wrong query"
    WRONG_STATE = "wrong state"
    WRONG_RETURN = "wrong return"


class WrongAction(StrEnum):
    """Relation of a wrong action to the program, after the true frames before it."""

    OUTSIDE = "outside the control flow"
    """The program's code never allows it there: a constraint makes it impossible."""
    ALLOWED = "allowed by the control flow"
    """The code allows it: values decide which way is taken."""


UNTRACED = "untraced"
"""Stands for a class if the program could not run, so that there is no truth. Rates leave such records out."""
TOO_LONG = frozenset({"frames", "output", "time", "memory", "budget"})
"""Outcomes of programs that run too long."""
