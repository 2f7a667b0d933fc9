"""Small spaces of programs, which are listed in place of repeated draws."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeVar

from remedy import rng

T = TypeVar("T")
PROBES = 16  # random draws that estimate the size of a space before it is listed


class _ChosenDraws(rng.Draws):
    """Draws that follow given choices, then first options; random under a key."""

    def __init__(self, choices: list[int], key: int | None = None) -> None:
        super().__init__(key or 0)
        self.random = key is not None
        self.choices = choices
        self.options: list[int] = []

    def integer(self, low: int, high: int) -> int:
        number = len(self.options)
        self.options.append(high - low + 1)
        if self.random:
            return super().integer(low, high)
        return low + (self.choices[number] if number < len(self.choices) else 0)


def outcomes(draw: Callable[[rng.Draws], T], limit: int) -> list[T] | None:
    """List the results of `draw` for every sequence of choices; None above `limit`.

    Random draws estimate the size first (Knuth, "Estimating the efficiency of backtrack programs", 1975).
    """
    estimates = []
    for number in range(PROBES):
        probe = _ChosenDraws([], rng.key(0, 0, number))
        draw(probe)
        estimates.append(prod(probe.options))
    # Twice the limit leaves room for the estimate's error: a space near it is counted exactly below.
    if sum(estimates) / PROBES > 2 * limit:
        return None
    results: list[T] = []
    choices: list[int] = []
    while len(results) < limit:
        draws = _ChosenDraws(choices)
        results.append(draw(draws))
        choices += [0] * (len(draws.options) - len(choices))
        while choices and choices[-1] == draws.options[len(choices) - 1] - 1:
            choices.pop()
        if not choices:
            return results
        choices[-1] += 1
    return None
