"""Programs with loops, branches and helper functions, whose number of executed lines is known without running them.

Every line is a one-to-one function of the variables (`x = (x + 3 * y + 5) % 97`). So uniform arguments give a uniform answer, however
long the program runs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from textwrap import indent
from typing import NamedTuple, TypeVar

from remedy import rng
from remedy.data_gen.execution.program import MARKER
from remedy.data_gen.splits import ALL, split_of, text_hash
from remedy.data_gen.tasks.task import MAX_ATTEMPTS
from remedy.settings import ConfigError

T = TypeVar("T")
COUNTERS = "ijkl"
"""Loop counters by level; loops are nested no deeper."""
_NAME = re.compile(r"\b(?:xs|[a-z])\b")


def least_lines(depth: int) -> int:
    """Return the smallest budget of a nest of loops."""
    return (8 << depth) - 8


def log_uniform(draws: rng.Draws, low: int, high: int) -> int:
    """Draw from low to high, both included, log-uniformly."""
    # By bisection: square roots are rounded alike on every machine, powers are not.
    first, last = float(low), float(high + 1)
    for _ in range(24):
        middle = math.sqrt(first * last)
        first, last = (middle, last) if draws.integer(0, 1) else (first, middle)
    return int(first)


def loop_body_hash(body: str) -> int:
    """Hash a loop's body, whatever its variables are called."""
    names: dict[str, str] = {}
    return text_hash(_NAME.sub(lambda match: names.setdefault(match[0], f"v{len(names)}"), body))


class Piece(NamedTuple):
    """Source lines. `costs`: lines they execute in each round of the loop around them, repeating with its length."""

    text: str
    costs: tuple[int, ...] = (1,)

    def executed(self, rounds: int) -> int:
        whole, rest = divmod(rounds, len(self.costs))
        return whole * sum(self.costs) + sum(self.costs[:rest])


class _Scope(NamedTuple):
    """Variables that a line may change, and `given` ones that it may only read. `counter`: that of the innermost loop, if any."""

    targets: tuple[str, ...]
    given: tuple[str, ...] = ()
    counter: str = ""
    has_list: bool = False

    def readable(self, target: str) -> list[str]:
        return [name for name in (*self.targets, *self.given) if name != target]


class LoopWriter:
    """Writer of one program, with loop bodies of one split."""

    def __init__(self, draws: rng.Draws, split: str, modulus: int) -> None:
        self._draws, self._split, self._modulus = draws, split, modulus
        self._size = draws.integer(3, 6)
        self._factors = [*itertools.islice((n for n in itertools.count(2) if math.gcd(n, modulus) == 1), 8)]
        self._helpers: dict[str, Piece] = {}

    def program(self, lines: int, depth: int) -> tuple[str, int]:
        """Write a program that executes `lines` lines; return its code and its number of helper functions."""
        draws, scope = self._draws, _Scope(("x", "y", "z"), has_list=True)
        left, nested, pieces = lines - 2, depth, list[Piece]()  # `main` and `f` each have a line that returns
        for name in "gh"[: draws.integer(0, 2)]:
            helper = self._helper(name)
            if left - helper.costs[0] > 2 * least_lines(depth):
                self._helpers[name] = helper
                pieces.append(self._call(name, scope))
                left -= pieces[-1].costs[0]
        while left >= least_lines(nested):
            budget = max(left // draws.integer(1, 2), least_lines(nested))
            pieces.append(self._loop(budget, nested, scope))
            left -= pieces[-1].costs[0]
            nested = 1 if left <= 2 * self._modulus else min(depth, 2)
        pieces += [Piece(self._line(scope)) for _ in range(left)]
        x, y, z, *values = (draws.integer(0, self._modulus - 1) for _ in range(3 + self._size))
        functions = [
            *(helper.text for helper in self._helpers.values()),
            f"def f(x, y, z, xs):\n{_indented(_shuffled(pieces, draws))}    return x\n",
            f"def main():  {MARKER}\n    return f({x}, {y}, {z}, {values})\n",
        ]
        return "\n\n".join(functions), len(self._helpers)

    def _helper(self, name: str) -> Piece:
        """Draw a function that changes its first argument by the second."""
        draws, scope = self._draws, _Scope(("a",), ("b",))
        pieces = self._round(draws.integer(1, 3), scope) if draws.integer(0, 3) else [self._loop(8, 1, scope)]
        cost = sum(piece.costs[0] for piece in pieces)
        return Piece(f"def {name}(a, b):\n{_indented(pieces)}    return a\n", (cost + 1,))

    def _loop(self, budget: int, depth: int, scope: _Scope, level: int = 0) -> Piece:
        """Draw a loop that executes at most `budget` lines, with as many rounds as fit."""
        draws, counter, size = self._draws, COUNTERS[level], self._size
        inside = scope._replace(given=(*scope.given, counter), counter=counter)
        over_list, inner = False, list[Piece]()
        if depth > 1:
            most = min(self._modulus - 1, budget // (least_lines(depth - 1) + 4))
            fewest = min(most, max(6, budget // (2 * self._modulus ** (depth - 1))))
            per_round = budget // log_uniform(draws, fewest, most)
            own = min(draws.integer(1, 8), per_round - least_lines(depth - 1) - 3)
            inner = [self._loop(per_round - own - 3, depth - 1, inside, level + 1)]
        else:
            own = min(draws.integer(2, 12), budget // 2 - 3)
            over_list = scope.has_list and level > 0 and size * (own + 1) < budget < 2 * size * (own + 1)
        if over_list:
            inside = scope._replace(given=(*scope.given, "v"), counter="", has_list=False)
        counting = [Piece(f"{counter} += 1\n")] if not over_list and draws.integer(0, 2) == 0 else []
        bodies = (self._round(own, inside, inner) + counting for _ in range(MAX_ATTEMPTS))
        body = next((body for body in bodies if self._split in (ALL, split_of(loop_body_hash(_text(body))))), None)
        if body is None:
            raise ConfigError(f"data.task (loops): no loop body of the {self._split} split in {MAX_ATTEMPTS} draws")

        def executed(rounds: int) -> int:
            return len(counting) + 1 + rounds + sum(piece.executed(rounds) for piece in body)

        rounds = size if over_list else self._modulus - 1
        while executed(rounds) > budget:
            rounds -= 1
        head = "for v in xs:" if over_list else f"for {counter} in range({rounds}):"
        head = f"{counter} = 0\nwhile {counter} < {rounds}:" if counting else head
        return Piece(f"{head}\n{_indented(body)}", (executed(rounds),))

    def _round(self, own: int, scope: _Scope, inner: Sequence[Piece] = ()) -> list[Piece]:
        """Draw lines that execute at most `own` lines, beside inner loops."""
        # `f` returns its first variable: every innermost loop changes it, so that copying an argument is no answer.
        pieces = [] if inner else [Piece(self._change(scope.targets[0], scope))]
        spent = len(pieces)
        while spent < own:
            pieces.append(self._step(own - spent, scope))
            spent += max(pieces[-1].costs)
        return _shuffled([*inner, *pieces], self._draws)

    def _step(self, most: int, scope: _Scope) -> Piece:
        """Draw a call, a branch or a line that executes at most `most` lines."""
        draws, kind = self._draws, self._draws.integer(0, 7)
        if kind < 3 and len(scope.targets) > 2 and self._helpers:
            call = self._call(draws.choice([*self._helpers]), scope)
            if call.costs[0] <= most:
                return call
        period = draws.integer(2, 4)
        remainder = draws.integer(0, period - 1)
        if kind in (3, 4) and scope.counter and most > 1:
            arms = draws.integer(1, min(3, most - 1)), draws.integer(0, min(3, most - 1))
            costs = tuple(1 + arms[number != remainder] for number in range(period))
            return Piece(self._branch(f"{scope.counter} % {period} == {remainder}", arms, scope), costs)
        if kind in (5, 6) and most > 1:  # equal arms, as the values decide
            tested, size = draws.choice(scope.targets[1:] or scope.given), draws.integer(1, min(2, most - 1))
            bound = draws.integer(self._modulus // 4, self._modulus * 3 // 4)
            test = draws.choice([f"{tested} % {period} == {remainder}", f"{tested} < {bound}"])
            targets = tuple(name for name in scope.targets if name != tested)
            arms_scope = scope._replace(targets=targets, given=(*scope.given, tested))
            return Piece(self._branch(test, (size, size), arms_scope), (1 + size,))
        return Piece(self._line(scope))

    def _call(self, helper: str, scope: _Scope) -> Piece:
        target, other = _shuffled(scope.targets, self._draws)[:2]
        return Piece(f"{target} = {helper}({target}, {other})\n", (self._helpers[helper].costs[0] + 1,))

    def _branch(self, test: str, sizes: tuple[int, int], scope: _Scope) -> str:
        then, otherwise = (_indented([Piece(self._line(scope)) for _ in range(size)]) for size in sizes)
        return f"if {test}:\n{then}" + (f"else:\n{otherwise}" if otherwise else "")

    def _line(self, scope: _Scope) -> str:
        """Draw a line that changes a variable, two of them, or the list."""
        draws, kind = self._draws, self._draws.integer(0, 11)
        if kind == 0 and len(scope.targets) > 1:
            first, second = _shuffled(scope.targets, draws)[:2]
            return f"{first}, {second} = {second}, {first}\n"
        if kind == 1 and scope.has_list:
            return draws.choice(["xs.append(xs.pop(0))\n", "xs.reverse()\n"])
        return self._change(self._element(scope) if kind < 4 and scope.has_list else draws.choice(scope.targets), scope)

    def _change(self, target: str, scope: _Scope) -> str:
        """Draw a line that changes a variable or an element by others."""
        draws, others = self._draws, scope.readable(target)
        by, factor, constant = draws.choice(others), draws.choice(self._factors), draws.integer(1, self._modulus - 1)
        if scope.has_list and target in scope.targets and draws.integer(0, 3) == 0:
            by = self._element(scope, target)
        forms = (
            f"{factor} * {target} + {by} + {constant}",
            f"{target} + {factor} * {by} + {constant}",
            f"{target} - {by} + {constant}",
            f"{target} + {by} * {draws.choice(others)}",
        )
        return f"{target} = ({draws.choice(forms)}) % {self._modulus}\n"

    def _element(self, scope: _Scope, target: str = "") -> str:
        return f"xs[{self._draws.choice(scope.readable(target))} % {self._size}]"


def _text(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _indented(pieces: Sequence[Piece]) -> str:
    return indent(_text(pieces), "    ")


def _shuffled(items: Sequence[T], draws: rng.Draws) -> list[T]:
    left = [*items]
    return [left.pop(draws.integer(0, len(left) - 1)) for _ in items]
