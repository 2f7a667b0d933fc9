"""The loops task: programs with loops, branches and helper functions that run a given number of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from remedy import rng
from remedy.data_gen.execution.program import Program, Trace
from remedy.data_gen.splits import stream_of
from remedy.data_gen.tasks.loop_programs import COUNTERS, LoopWriter, least_lines, log_uniform
from remedy.data_gen.tasks.task import MAX_ATTEMPTS, TASKS, Drawn, Guesses, Task, too_few_programs
from remedy.messages import shown
from remedy.settings import low_high

LONGEST = 50_000
"""Executed lines of a program, which the tracer's limit on frames allows."""


@TASKS.register("loops")
class LoopsTask(Task):
    """Integer and list programs with nested loops, branches and helper functions."""

    kind: Literal["loops"] = "loops"
    lines: int | tuple[int, int] = (32, 1024)
    """Number of executed lines (frames of event `line`), fixed or drawn log-uniformly from [low, high]."""
    depth: int | tuple[int, int] = (1, 2)
    """Number of loops inside one another, fixed or drawn from those of [low, high] that can run so many lines."""
    modulus: int = Field(default=97, ge=32, le=1000)
    """Every value is below it, and so is the number of rounds of a loop. All answers are equally likely."""
    held_out_lines: tuple[tuple[int, int], ...] = ()
    """Ranges [low, high] of numbers of executed lines that the train split never has."""
    held_out_depths: tuple[int, ...] = ()
    """Depths that the train split never has."""

    @model_validator(mode="after")
    def _fits(self) -> LoopsTask:
        (low, high), (least, most) = low_high(self.lines), low_high(self.depth)
        if not 1 <= least <= most <= len(COUNTERS):
            raise ValueError(f"depth must lie in 1..{len(COUNTERS)}, got {shown(self.depth)}")
        first, last = self._bounds(least)[0], min(LONGEST, self._bounds(most)[1])
        if not first <= low <= high <= last:
            raise ValueError(
                f"lines must be {first} to {last} with depth {shown(self.depth)} and modulus {self.modulus}, or [low, high] within "
                f"them; got {shown(self.lines)}"
            )
        return self

    def _bounds(self, depth: int) -> tuple[int, int]:
        """Return the fewest and the most lines of programs of a depth."""
        return least_lines(depth) + 2, 4 * self.modulus**depth

    @property
    def name(self) -> str:
        low, high = low_high(self.lines)
        return f"{self.kind} ({low} lines)" if low == high else f"{self.kind} ({low} to {high} lines)"

    def describe(self) -> str:
        return "Loop programs: nested loops, branches and helper functions over small integers and a list"

    def has_strings(self, session: bool) -> bool:
        return False

    def split_rule(self) -> str:
        return "The hash of a loop's body picks its split, so no loop body occurs in two of them"

    def held_out(self) -> dict[tuple[str, Any], str]:
        (low, high), (least, most) = low_high(self.lines), low_high(self.depth)
        reasons: dict[tuple[str, Any], str] = {}
        for first, last in self.held_out_lines:
            occurs = max(first, low) <= min(last, high)
            reasons["held_out_lines", (first, last)] = "" if occurs else f"programs run {low} to {high} lines"
        for depth in self.held_out_depths:
            reasons["held_out_depths", depth] = "" if least <= depth <= most else f"depths are {least} to {most}"
        return reasons

    def guesses(self, trace: Trace, answer: str) -> Guesses:
        """Rate a guess among all values, and the argument that the answer is computed from."""
        return super().guesses(trace, answer)._replace(chance=1 / self.modulus)

    def draw(self, split: str, indices: Sequence[int], seed: int, session: bool) -> list[Drawn]:
        return [self._drawn(split, index, seed) for index in indices]

    def _drawn(self, split: str, index: int, seed: int) -> Drawn:
        least, most = low_high(self.depth)
        for attempt in range(MAX_ATTEMPTS):
            key = rng.key(seed, stream_of(split), index, attempt)
            draws = rng.Draws(key)
            lines = log_uniform(draws, *low_high(self.lines))
            bounds = ((depth, *self._bounds(depth)) for depth in range(least, most + 1))
            depth = draws.choice([depth for depth, low, high in bounds if low <= lines <= high])
            held_out = depth in self.held_out_depths or any(low <= lines <= high for low, high in self.held_out_lines)
            if split != "train" or not held_out:
                code, helpers = LoopWriter(draws, split, self.modulus).program(lines, depth)
                slices: dict[str, int | str] = {
                    "modulus": self.modulus,
                    "lines": lines,
                    "depth": depth,
                    "helpers": helpers,
                }
                return Drawn(Program(code, f"loops {split}/{index}"), code, key, slices, returns=True)
        raise too_few_programs(self, split)
