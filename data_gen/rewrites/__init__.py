"""Rewrites that change how a program is written, not what it does.

To add one, write a function `(tree, names, functions) -> None` that changes functions of a module's syntax tree, and
register it in REWRITES.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from remedy.data_gen.execution.program import MARKER, Program, ProgramError
from remedy.data_gen.rewrites.characters import LOOPS, characters
from remedy.data_gen.rewrites.comprehensions import comprehensions
from remedy.data_gen.rewrites.hoisting import chains, temporaries
from remedy.data_gen.rewrites.names import Names
from remedy.registry import Registry, one_of

Rewrite = Callable[[ast.Module, Names, list[ast.FunctionDef]], None]
"""Changes the functions in place."""

REWRITES: Registry[Rewrite] = Registry("rewrite")
"""In the order in which several are applied: each leaves work for those after it."""

REWRITES["comprehensions"] = comprehensions
REWRITES["characters"] = characters
REWRITES["chains"] = chains
REWRITES["temporaries"] = temporaries

RewriteName = Annotated[str, one_of(REWRITES)]

Rewriting = Literal["none", "all"] | RewriteName
"""One rewrite, `all` of them, or `none`: the program as it is."""


def rewrites_of(rewriting: str) -> tuple[str, ...]:
    """Return the rewrites that a name stands for; `all` and `none` are names too."""
    return {"none": (), "all": tuple(REWRITES)}.get(rewriting, (rewriting,))


def rewrite_program(program: Program, kinds: Sequence[str]) -> Program:
    """Rewrite all functions of a program but the marked one.

    A changed program loses comments and layout. One without an entry point is returned as it is.
    """
    try:
        entry = program.entry_point().name
        code = rewrite_source(program.code, kinds, entry=entry)
    except ProgramError:
        return program
    if code == program.code:
        return program
    lines = code.split("\n")
    marked = max(number for number, line in enumerate(lines) if line.startswith(f"def {entry}("))
    lines[marked] += f"  {MARKER}"
    return replace(program, code="\n".join(lines))


def rewrite_source(code: str, kinds: Sequence[str], name: str = "<program>", entry: str = "") -> str:
    """Rewrite all functions of a source but `entry`.

    Raises:
        ProgramError: `syntax`, it does not parse; `recursion`, it is nested too deeply.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError("syntax", f"{name}: does not compile: {error}") from None
    try:
        before = ast.unparse(tree)
        for kind, rewrite in REWRITES.items():
            if kind in kinds:
                rewrite(tree, Names(tree), _functions(tree, entry))
        after = ast.unparse(ast.fix_missing_locations(tree))
    except RecursionError:
        raise ProgramError(
            "recursion", f"{name}: is nested too deeply to be rewritten: split its expressions"
        ) from None
    return code if after == before else after + "\n"


def _functions(tree: ast.Module, entry: str) -> list[ast.FunctionDef]:
    left_alone = {entry, *dict(LOOPS.values())}
    statements = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and s.name in left_alone)]
    return [node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)]
