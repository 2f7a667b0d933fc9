"""`remedy rewrite`: a file's functions in smaller steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.rewrites import REWRITES, rewrite_program, rewrite_source
from remedy.launch.console import show_source
from remedy.messages import suggest
from remedy.settings import ConfigError, UserError


def rewrite(
    file: Annotated[Path, typer.Argument(help="a Python file")],
    only: Annotated[list[str] | None, typer.Option(help="a rewrite to apply, once for each (default: all)")] = None,
) -> None:
    """Print a file with its functions rewritten in smaller steps."""
    show_source(rewritten(file, only or []))


def rewritten(file: Path, only: Sequence[str]) -> str:
    """Return the file's source after these rewrites, by default all.

    A marked function stays as it is.

    Raises:
        UserError: a rewrite is unknown, or the file cannot be read.
        ProgramError: it does not compile.
    """
    for name in only:
        if name not in REWRITES:
            raise ConfigError(f"--only: unknown rewrite {name!r}; {suggest(name, REWRITES)}")
    try:
        code = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {getattr(error, 'strerror', error)}") from None
    kinds = list(only) or list(REWRITES)
    if MARKER in code:
        program = Program(code, str(file))
        program.entry_point()
        return rewrite_program(program, kinds).code
    return rewrite_source(code, kinds, str(file))
