"""Spaces of programs that are small enough to be listed: every program once, in place of repeated draws."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeVar

from remedy import rng

T = TypeVar("T")
PROBES = 16
"""Random draws by which the size of a space is estimated before it is listed."""


class _Path(rng.Draws):
    """Draws whose choices are given, the first option after them; or random, where a key is given. It notes how many options
    every choice had."""

    def __init__(self, choices: list[int], key: int | None = None) -> None:
        super().__init__(key or 0)
        self.random = key is not None
        self.choices = choices
        self.options: list[int] = []

    def integer(self, low: int, high: int) -> int:
        place = len(self.options)
        self.options.append(high - low + 1)
        if self.random:
            return super().integer(low, high)
        return low + (self.choices[place] if place < len(self.choices) else 0)


def outcomes(draw: Callable[[rng.Draws], T], limit: int) -> list[T] | None:
    """List what `draw` makes of every sequence of choices, in order; None if there are more than `limit`.

    Whether it is worth listing is estimated first, by the options along random draws (Knuth, "Estimating the efficiency of
    backtrack programs", Mathematics of Computation, 1975).
    """
    estimates = []
    for number in range(PROBES):
        probe = _Path([], rng.key(0, 0, number))
        draw(probe)
        estimates.append(prod(probe.options))
    if sum(estimates) / PROBES > 2 * limit:
        return None
    found: list[T] = []
    choices: list[int] = []
    while len(found) < limit:
        path = _Path(choices)
        found.append(draw(path))
        choices += [0] * (len(path.options) - len(choices))
        while choices and choices[-1] == path.options[len(choices) - 1] - 1:
            choices.pop()
        if not choices:
            return found
        choices[-1] += 1
    return None
