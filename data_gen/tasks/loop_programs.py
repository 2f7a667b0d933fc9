"""Programs with loops, branches and helper functions, whose number of executed lines is known without running them.

Every line replaces one variable by a one-to-one function of its value, the others being given (`x = (x + 3 * y + 5) % 97`). So programs
with uniform arguments have uniform answers, however long they run.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from remedy import rng
from remedy.data_gen.execution.program import MARKER
from remedy.data_gen.splits import ALL, split_of, text_hash

T = TypeVar("T")
COUNTERS = "ijkl"
"""The counters of loops, by level; as many as loops can be nested."""
BITS = 24  # of a number of lines: enough for each one in any range to be drawn
_NAME = re.compile(r"\b(?:xs|[a-z])\b")


class NoLoopBodyError(Exception):
    """No loop body of the split was found."""


def least_lines(depth: int) -> int:
    """Return the fewest lines that a nest of loops may be asked to run."""
    return 2**depth * 8 - 8


def line_bounds(depth: int, modulus: int) -> tuple[int, int]:
    """Return the fewest and the most executed lines of programs with nests of this depth."""
    return least_lines(depth) + 2, 4 * modulus**depth


def log_uniform(draws: rng.Draws, low: int, high: int) -> int:
    """Draw from low to high, both included, log-uniformly, by bisection."""
    # Square roots are rounded the same on every machine; powers and logarithms are not.
    first, last = float(low), float(high + 1)
    for _ in range(BITS):
        middle = math.sqrt(first * last)
        first, last = (middle, last) if draws.integer(0, 1) else (first, middle)
    return int(first)


def loop_body_hash(body: Sequence[str]) -> int:
    """Hash the lines of a loop's body, whatever its variables are called."""
    names: dict[str, str] = {}
    return text_hash(_NAME.sub(lambda found: names.setdefault(found[0], f"v{len(names)}"), "\n".join(body)))


class Piece(NamedTuple):
    """Lines of code, and how many lines they run in each round of the loop around them, which repeats with its length."""

    lines: tuple[str, ...]
    costs: tuple[int, ...] = (1,)

    def executed(self, rounds: int = 1) -> int:
        """Return the number of lines that run in the first rounds."""
        whole, rest = divmod(rounds, len(self.costs))
        return whole * sum(self.costs) + sum(self.costs[:rest])


class _Scope(NamedTuple):
    targets: tuple[str, ...]
    """Variables that lines may change."""
    given: tuple[str, ...] = ()
    """Variables that they only read."""
    counter: str = ""
    """That of the innermost loop, if it counts."""
    has_list: bool = False

    def without(self, name: str) -> _Scope:
        """Return the scope in which a variable may only be read."""
        return self._replace(targets=tuple(one for one in self.targets if one != name), given=(*self.given, name))


class LoopWriter:
    """Draws the parts of one program, with loop bodies of one split."""

    def __init__(self, draws: rng.Draws, split: str, modulus: int) -> None:
        self._draws, self._split, self._modulus = draws, split, modulus
        self._size = draws.integer(3, 6)
        self._factors = [*itertools.islice((n for n in itertools.count(2) if math.gcd(n, modulus) == 1), 8)]
        self._helpers: dict[str, Piece] = {}

    def program(self, lines: int, depth: int) -> tuple[str, int]:
        """Write a program that runs so many lines, with loops nested so deep; return its code and its number of helper functions."""
        draws, scope = self._draws, _Scope(("x", "y", "z"), has_list=True)
        for name in "gh"[: draws.integer(0, 2)]:
            self._helpers[name] = self._helper(name)
        left, pieces = lines - 2, []  # two lines return
        for _ in range(draws.integer(0, 2)):
            share = left // draws.integer(3, 6)
            nested = draws.integer(1, depth)
            if share >= least_lines(nested) and left - share >= 2 * least_lines(depth):
                pieces.append(self._loop(share, nested, scope))
                left -= pieces[-1].executed()
        nested = depth
        while left >= least_lines(nested):
            pieces.append(self._loop(left, nested, scope))
            left -= pieces[-1].executed()
            nested = 1 if left <= 2 * self._modulus else min(depth, 2)
        pieces += [Piece((self._line(scope),)) for _ in range(left)]
        body = [line for piece in _shuffled(pieces, draws) for line in piece.lines]
        text = _function("f(x, y, z, xs)", [*body, "return x"])
        used = [helper for name, helper in self._helpers.items() if re.search(rf"\b{name}\(", text)]
        x, y, z, *values = (draws.integer(0, self._modulus - 1) for _ in range(3 + self._size))
        main = f"def main():  {MARKER}\n    return f({x}, {y}, {z}, {values})\n"
        return "\n\n".join(["\n".join(helper.lines) + "\n" for helper in used] + [text, main]), len(used)

    def _helper(self, name: str) -> Piece:
        """Draw a function that changes its first argument, and does not let it change the second."""
        scope = _Scope(("a",), ("b",))
        looped = self._draws.integer(0, 3) == 0
        piece = self._loop(8, 1, scope) if looped else self._body(self._draws.integer(1, 3), scope)
        return Piece(tuple(_function(f"{name}(a, b)", [*piece.lines, "return a"]).splitlines()), (piece.costs[0] + 1,))

    def _loop(self, budget: int, depth: int, scope: _Scope, level: int = 0) -> Piece:
        """Draw a loop that runs at most `budget` lines, less than one round below it unless it has the most rounds."""
        draws, over_list = self._draws, False
        counter = COUNTERS[level]
        inside = scope._replace(given=(*scope.given, counter), counter=counter)
        if depth > 1:
            most = min(self._modulus - 1, budget // (least_lines(depth - 1) + 4))
            fewest = max(min(6, most), budget // (2 * self._modulus ** (depth - 1)))
            per_round = budget // log_uniform(draws, min(fewest, most), most)
            own = min(draws.integer(1, 8), per_round - least_lines(depth - 1) - 3)
            inner = [self._loop(per_round - own - 3, depth - 1, inside, level + 1)]
        else:
            own, inner = min(draws.integer(2, 12), budget // 2 - 3), []
            over_list = scope.has_list and level > 0 and self._size * (own + 1) < budget < 2 * self._size * (own + 1)
        counts = not over_list and draws.integer(0, 2) == 0
        if over_list:
            inside = scope._replace(given=(*scope.given, "v"), counter="", has_list=False)
        body = self._in_split(lambda: self._round(own, inside, inner, counts))
        costs = [piece.executed for piece in body]

        def executed(rounds: int) -> int:
            return 1 + counts + rounds + sum(cost(rounds) for cost in costs)

        rounds = self._size if over_list else self._modulus - 1
        while executed(rounds) > budget:
            rounds -= 1
        heads = {
            True: [f"{counter} = 0", f"while {counter} < {rounds}:"],
            False: [f"for {counter} in range({rounds}):"],
        }
        head = ["for v in xs:"] if over_list else heads[counts]
        return Piece((*head, *_indented(_lines(body))), (executed(rounds),))

    def _in_split(self, draw: Callable[[], list[Piece]]) -> list[Piece]:
        """Draw a loop's body until the split may have it."""
        for _ in range(1000):
            body = draw()
            if self._split in (ALL, split_of(loop_body_hash(_lines(body)))):
                return body
        raise NoLoopBodyError

    def _round(self, own: int, scope: _Scope, inner: Sequence[Piece], counts: bool) -> list[Piece]:
        """Draw a loop's body: lines that run at most `own` lines, the loops inside it, and the line that counts."""
        # The answer is the first variable, so that every innermost loop changes it.
        pieces = [*inner] or [Piece((self._change(scope.targets[0], scope),))]
        spent = sum(piece.costs[0] for piece in pieces if piece not in inner)
        while spent < own:
            pieces.append(self._step(own - spent, scope))
            spent += max(pieces[-1].costs)
        counting = [Piece((f"{scope.counter} += 1",))] if counts else []
        return _shuffled(pieces, self._draws) + counting

    def _body(self, most: int, scope: _Scope) -> Piece:
        """Draw lines that run once."""
        pieces = self._round(most, scope, [], counts=False)
        return Piece(_lines(pieces), (sum(piece.costs[0] for piece in pieces),))

    def _step(self, most: int, scope: _Scope) -> Piece:
        """Draw a call, a branch or a line that runs at most so many lines."""
        draws, kind = self._draws, self._draws.integer(0, 7)
        if kind < 3 and len(scope.targets) > 2 and self._helpers:
            name = draws.choice([*self._helpers])
            cost, (target, other) = self._helpers[name].costs[0] + 1, _shuffled(scope.targets, draws)[:2]
            if cost <= most:
                return Piece((f"{target} = {name}({target}, {other})",), (cost,))
        if kind in (3, 4) and scope.counter and most > 1:
            period = draws.integer(2, 4)
            when, (then, otherwise) = draws.integer(0, period - 1), (draws.integer(1, min(3, most - 1)) for _ in "ab")
            otherwise *= draws.integer(0, 1)
            lines = self._branch(f"{scope.counter} % {period} == {when}", then, otherwise, scope)
            return Piece(lines, tuple(1 + (then if number == when else otherwise) for number in range(period)))
        if kind in (5, 6) and most > 1:
            tested = draws.choice(scope.targets[1:] or scope.given)
            period, size = draws.integer(2, 4), draws.integer(1, min(2, most - 1))
            below = f"{tested} < {draws.integer(self._modulus // 4, self._modulus * 3 // 4)}"
            test = draws.choice([f"{tested} % {period} == {draws.integer(0, period - 1)}", below])
            return Piece(self._branch(test, size, size, scope.without(tested)), (1 + size,))
        return Piece((self._line(scope),))

    def _branch(self, test: str, then: int, otherwise: int, scope: _Scope) -> tuple[str, ...]:
        arms = [_indented([self._line(scope) for _ in range(count)]) for count in (then, otherwise)]
        return (f"if {test}:", *arms[0], *(["else:", *arms[1]] if otherwise else []))

    def _line(self, scope: _Scope) -> str:
        """Draw a line that changes a variable, two of them, or the list."""
        draws, kind = self._draws, self._draws.integer(0, 11)
        if kind == 0 and len(scope.targets) > 1:
            first, second = _shuffled(scope.targets, draws)[:2]
            return f"{first}, {second} = {second}, {first}"
        if kind == 1 and scope.has_list:
            return draws.choice(["xs.append(xs.pop(0))", "xs.reverse()"])
        if kind < 4 and scope.has_list:
            return self._change(self._element(scope, ""), scope)
        return self._change(draws.choice(scope.targets), scope)

    def _change(self, target: str, scope: _Scope) -> str:
        """Draw a line that changes one variable or element by what others are."""
        draws, last = self._draws, self._modulus
        others = [name for name in (*scope.targets, *scope.given) if name != target]
        by = draws.choice(others)
        if scope.has_list and "[" not in target and draws.integer(0, 3) == 0:
            by = self._element(scope, target)
        factor, constant = draws.choice(self._factors), draws.integer(1, last - 1)
        changed = draws.choice(
            [
                f"{factor} * {target} + {by} + {constant}",
                f"{target} + {factor} * {by} + {constant}",
                f"{target} - {by} + {constant}",
                f"{target} + {by} * {draws.choice(others)}",
            ]
        )
        return f"{target} = ({changed}) % {last}"

    def _element(self, scope: _Scope, target: str) -> str:
        index = self._draws.choice([name for name in (*scope.targets, *scope.given) if name != target])
        return f"xs[{index} % {self._size}]"


def _function(head: str, body: Sequence[str]) -> str:
    return "\n".join([f"def {head}:", *_indented(body)]) + "\n"


def _lines(pieces: Sequence[Piece]) -> tuple[str, ...]:
    return tuple(line for piece in pieces for line in piece.lines)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _shuffled(items: Sequence[T], draws: rng.Draws) -> list[T]:
    left = [*items]
    return [left.pop(draws.integer(0, len(left) - 1)) for _ in items]
