"""Marks in a program: the trace shows states at lines that end in `# show`."""

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
    """Return the lines, counted from 1, whose comments end in the mark."""
    if MARK not in code:
        return frozenset()
    return frozenset(
        token.start[0] for token in _tokens(code) if token.type == tokenize.COMMENT and _ends_in_mark(token.string)
    )


def draw_marks(program: Program, share: float, key: int, among: Iterable[int] | None = None) -> Program:
    """Mark further lines with probability `share`.

    `among`: candidate lines; by default those that start a statement of a function.
    """
    lines, ends = program.source_lines(), _line_ends(program.code)
    line_key = rng.key(key, rng.MARKS, 0)
    for number in sorted(set(_statements(program.code) if among is None else among) & ends):
        line = lines[number - 1]
        unmarked = MARKER not in line and not _ends_in_mark(line)
        if unmarked and rng.below(rng.bits(line_key, number), 1_000_000) < share * 1_000_000:
            lines[number - 1] = f"{line.rstrip()}  {MARK}"
    return replace(program, code="\n".join(lines))


def _ends_in_mark(comment: str) -> bool:
    return comment.rstrip().endswith(MARK)


def _line_ends(code: str) -> set[int]:
    return {token.start[0] for token in _tokens(code) if token.type in (tokenize.NEWLINE, tokenize.NL)}


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # a program that does not compile has no trace
        yield from tokenize.generate_tokens(io.StringIO(code, newline=None).readline)  # a lone \r ends a line too


def _statements(code: str) -> Iterator[int]:
    """Yield the first lines of functions and of traced statements in them."""
    # Programs are untrusted: besides syntax errors, `ast.parse` raises these for null characters and for deep nesting.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for function in ast.walk(ast.parse(code)):
            if isinstance(function, _SCOPES):
                for node in ast.walk(function):
                    silent = isinstance(node, _SILENT) or (
                        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                    )
                    if isinstance(node, ast.stmt) and not silent:
                        yield node.lineno
