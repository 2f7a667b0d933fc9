"""Classes of failures: one for each example, by rules over the first frame that differs from the truth.

The rules, in order, for an example whose answer is wrong:

1. `truncated`: the true trace has more tokens than may be written, or the program runs too long to be traced.
2. `runaway`: the model left the truth and wrote on until its tokens ran out.
3. By the first frame that differs from the true one at its place, read in the order in which it is written:
   `malformed` if it cannot be read as a frame (or the trace stops there); `wrong action` if its event or, the state being
   right, its source line differs, or the trace goes on after the true end; `wrong query` if it asks for another state;
   `wrong state` if its locals differ, with the type of the first wrong variable's true value, or `names` if a variable is
   missing or made up; `wrong return` if only the returned or raised value differs, so that no check of states sees it.

A class is of one frame of one example. The failures of long traces that comparisons aim at are of a model: `wrong action` shows as
the class of that name; `lost state` as `wrong state` or `wrong return`, and by itself where actions are fed.
"""

from __future__ import annotations

from enum import StrEnum


class Failure(StrEnum):
    """The classes, in the order in which reports list them."""

    TRUNCATED = "truncated"
    RUNAWAY = "runaway"
    MALFORMED = "malformed"
    WRONG_ACTION = "wrong action"
    WRONG_QUERY = "wrong query"
    WRONG_STATE = "wrong state"
    WRONG_RETURN = "wrong return"


class WrongAction(StrEnum):
    """Relation of a wrong action to the program, given the true frames before it."""

    OUTSIDE = "outside the control flow"
    """The program's code does not allow it there, whatever its variables are: a constraint makes it impossible."""
    ALLOWED = "allowed by the control flow"
    """The code allows it: which way is taken depends on values."""


UNTRACED = "untraced"
"""Stands in place of a class where there is no truth to fail at: the program could not be run. Rates leave such records out."""
TOO_LONG = frozenset({"frames", "output", "time", "memory", "budget"})
"""Outcomes of programs that run, but too long."""
