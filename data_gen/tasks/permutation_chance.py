"""Chance of guessing a final state that the commands can reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from remedy.data_gen.tasks.permutation_programs import Ints, Moves, move_table


@lru_cache(maxsize=64)
def reachable(n: int, kind: Moves, steps: int) -> Ints:
    """All permutations that so many commands can make, as index arrays; shape (R, n).

    After an even number of swaps these are the even ones only.
    """
    table = move_table(n, kind)
    found = np.arange(n, dtype=np.int64)[None, :]
    for step in range(steps):
        if len(found) == len(table) and kind == "full":
            break
        if len(found) == math.factorial(n) // 2:  # all of one parity: swaps go to the other and back, three-cycles stay
            return found[:, table[0]] if kind == "swaps" and (steps - step) % 2 else found
        made = found[:, table].reshape(-1, n)
        found = made[np.unique(made @ (8 ** np.arange(n)), return_index=True)[1]]
    return found


def chance(start: Sequence[str], final: Sequence[str], kind: Moves, steps: int) -> float:
    """The probability that a guess among the permutations which `steps` commands can make gives the true final state.

    Above 1 in so many where values repeat, since several permutations then give one state.
    """
    ends = np.array(start)[reachable(len(start), kind, steps)]
    return float((ends == np.array(final)).all(axis=1).mean())
