"""`remedy rewrite`: one file's source with its functions rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.rewrites import REWRITES, rewrite_program, rewrite_source
from remedy.messages import suggest
from remedy.settings import ConfigError, UserError


def rewrite(file: Path, only: Sequence[str]) -> str:
    """The file's source after the rewrites, all of them if none is named; a marked function stays as it is, and marked.

    Raises:
        UserError: a rewrite is unknown, or the file cannot be read.
        ProgramError: it does not compile.
    """
    for name in only:
        if name not in REWRITES:
            raise ConfigError(f"--only: unknown rewrite {name!r}; {suggest(name, REWRITES)}")
    kinds = list(only) or list(REWRITES)
    try:
        code = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read as UTF-8 text: {error}") from None
    if MARKER in code:
        program = Program(code, str(file))
        program.entry_point()
        return rewrite_program(program, kinds).code
    return rewrite_source(code, kinds)
