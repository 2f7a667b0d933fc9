"""Knowledge of the values on a stack, and of what an instruction does with them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """Kind of a value that the stack may be known to hold."""

    FUNCTION = 0
    GENERATOR = 1
    """One that was just made."""
    LOOP = 2
    """A generator that a loop reads."""
    BUILTIN = 3
    METHOD = 4
    """An attribute, which may be called with its object."""
    NULL = 5
    """What stands below a callee that gets no object."""
    TUPLE = 6

    __hash__ = object.__hash__


class Known(NamedTuple):
    """A value on the stack of which something is known. `code`: the function's or generator's; `name`: the builtin's or method's."""

    kind: Kind
    code: int = -1
    name: str = ""


NULL, TUPLE = Known(Kind.NULL), Known(Kind.TUPLE)
Value = Known | None


@dataclass(slots=True)
class Effect:
    """Effect of an instruction besides going on."""

    calls: int | None = None
    """The one function that it runs, after all that `runs_escaped` says."""
    reads: int | None = None
    """The generator that it reads, which nothing else can reach."""
    stops_early: bool = False
    """Whether it may close that generator before its end."""
    closes: int | None = None
    """The generator that a loop is left with."""
    runs: frozenset[int] = frozenset()
    """Functions that it may run, any number of times."""
    runs_escaped: bool = False
    """Whether it may run, resume or close all that has escaped."""
    raises: bool = True
