"""Marks in a program, `# show` at the end of a line: where its trace shows states beside those of `reveal.spacing`.

A mark is a comment like any other: the program in the prompt has it, and so has each frame's source line.
"""

from __future__ import annotations

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from remedy import rng
from remedy.data_gen.execution.program import MARKER, Program

MARK = "# show"
_SILENT = ast.Global | ast.Nonlocal
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=4096)
def marked_lines(code: str) -> frozenset[int]:
    """The lines, counted from 1, whose comments end in the mark; inside a string it marks nothing."""
    if MARK not in code:
        return frozenset()
    return frozenset(
        token.start[0] for token in _tokens(code) if token.type == tokenize.COMMENT and _ends_in_mark(token.string)
    )


def draw_marks(program: Program, share: float, key: int, among: Iterable[int] | None = None) -> Program:
    """The program with each line marked at this probability, beside the marks that it has. `among`: of these lines alone; by default,
    of all that start a statement of a function."""
    lines, ends = program.source_lines(), _line_ends(program.code)
    drawn = rng.key(key, rng.MARKS, 0)
    for number in sorted(set(_statements(program.code) if among is None else among) & ends):
        line = lines[number - 1]
        free = MARKER not in line and not _ends_in_mark(line)
        if free and rng.below(rng.bits(drawn, number), 1_000_000) < share * 1_000_000:
            lines[number - 1] = f"{line.rstrip()}  {MARK}"
    return replace(program, code="\n".join(lines))


def _ends_in_mark(comment: str) -> bool:
    return comment.rstrip().endswith(MARK)


def _line_ends(code: str) -> set[int]:
    """The lines at whose ends a comment may stand: not those that go on in a string, or after a backslash."""
    return {token.start[0] for token in _tokens(code) if token.type in (tokenize.NEWLINE, tokenize.NL)}


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    """As far as it can be cut into tokens: a program that does not compile has no trace."""
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        yield from tokenize.generate_tokens(io.StringIO(code, newline=None).readline)  # a lone \r ends a line too


def _statements(code: str) -> Iterator[int]:
    """The lines that start a function or a statement in one, but for docstrings and others that nothing traces."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for function in ast.walk(ast.parse(code)):
            if isinstance(function, _SCOPES):
                for node in ast.walk(function):
                    silent = isinstance(node, _SILENT) or (
                        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                    )
                    if isinstance(node, ast.stmt) and not silent:
                        yield node.lineno
