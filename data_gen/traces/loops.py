"""Frames of a trace in the first rounds of its loops."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from remedy.data_gen.execution.program import Event, Trace

SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Loop(NamedTuple):
    """Lines of a `for` or `while`, counted from 1: its header's first, its body's first and last."""

    header: int
    body: int
    last: int


class Scope(NamedTuple):
    """Lines of a function or class, and its own loops, outer ones first."""

    first: int
    last: int
    loops: tuple[Loop, ...]


class Unfolded(NamedTuple):
    """Frames that remain where loops and recursion are folded, by their numbers."""

    kept: set[int]
    after: set[int]
    """Those of them that are the first in their call after a loop, and show a state."""


def has_loops(code: str) -> bool:
    """Say if a program has a `for` or `while` statement."""
    return any(scope.loops for scope in _scopes(code))


def unfolded(trace: Trace, most: int) -> Unfolded:
    """Find the frames in the first `most` rounds of loops and levels of recursions.

    A round begins at the loop's header, and so does the test that ends the loop. The frames of calls made in a round belong to it.
    A nested loop counts its rounds anew each time. A comprehension is no loop, and a resumed generator begins anew.
    """
    frames = Unfolded(set(), set())
    calls = [_Call(())]  # of a session, which begins with no call
    depths: Counter[int] = Counter()
    for number, frame in enumerate(trace.frames):
        left = False
        if frame.event is Event.CALL:
            comprehension = frame.locals is not None and ".0" in frame.locals
            line = 0 if comprehension else frame.line
            depths[line] += 1
            hidden = calls[-1].hides(most) or (line > 0 and depths[line] > most)
            calls.append(_Call(_loops_at(trace.program.code, line), line, hidden))
        elif frame.event is Event.LINE:
            left = calls[-1].go(frame.line)
        elif frame.event is Event.RETURN:
            calls[-1].rounds.clear()
        if not calls[-1].hides(most):
            frames.kept.add(number)
            if left:
                frames.after.add(number)
        if frame.event is Event.RETURN and len(calls) > 1:
            depths[calls.pop().line] -= 1
    return frames


@dataclass(slots=True)
class _Call:
    """A call that has not returned, with the loops that it is in."""

    loops: tuple[Loop, ...]
    line: int = 0
    """The line where it begins; 0 for a comprehension, which has no loops and is no recursion."""
    hidden: bool = False
    """Whether it is part of a round or recursion beyond the first."""
    rounds: list[int] = field(default_factory=list)
    """Rounds of the loops that it is in, outer ones first."""
    _inside: tuple[Loop, ...] = ()
    _at: int = 0

    def hides(self, most: int) -> bool:
        return self.hidden or any(count > most for count in self.rounds)

    def go(self, line: int) -> bool:
        """Go to a line, and say if that leaves a loop."""
        inside = tuple(loop for loop in self.loops if loop.header <= line <= loop.last)
        same = sum(1 for old, new in zip(self._inside[: len(self.rounds)], inside) if old == new)
        left = same < len(self.rounds)
        entered = same < len(inside)
        self.rounds[same:] = [0] * (len(inside) - same)
        if inside and _in_header(inside[-1], line):
            # A header of several lines is one beginning; one line that runs twice in a row is two rounds.
            again = entered or line == self._at or not _in_header(inside[-1], self._at)
            self.rounds[-1] += again
        self._inside, self._at = inside, line
        return left


def _in_header(loop: Loop, line: int) -> bool:
    return loop.header <= line < max(loop.body, loop.header + 1)


def _loops_at(code: str, line: int) -> tuple[Loop, ...]:
    """Return the loops of the innermost function or class at a line."""
    around = [scope for scope in _scopes(code) if scope.first <= line <= scope.last]
    return max(around, key=lambda scope: scope.first).loops if around else ()


@lru_cache(maxsize=256)
def _scopes(code: str) -> tuple[Scope, ...]:
    # Programs are untrusted: besides syntax errors, `ast.parse` raises these for null characters and for deep nesting.
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(_scopes_in(tree))


def _scopes_in(tree: ast.Module) -> Iterator[Scope]:
    for node in ast.walk(tree):
        if isinstance(node, SCOPES):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield Scope(first, node.end_lineno or first, tuple(_own_loops(node.body)))


def _own_loops(body: Sequence[ast.AST]) -> Iterator[Loop]:
    """Yield the loops among statements, outer ones first, without those of inner scopes."""
    todo = list(reversed(body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr | SCOPES):
            continue
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            yield Loop(node.lineno, node.body[0].lineno, node.body[-1].end_lineno or node.lineno)
        todo += reversed([*ast.iter_child_nodes(node)])
