"""The prompt of a program that is not run: what of its trace is known from its text."""

from __future__ import annotations

import ast
from pathlib import Path

from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.program import MARKER, Event, Frame, Program, Trace, Value
from remedy.data_gen.rewrites.names import Names
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.render import FORMATS, render
from remedy.messages import one_line, shown
from remedy.settings import UserError

FUNCTION = "f"
"""The function that is called with a given input, as in the JSONL lines of the `programs` task."""


def read_program(file: Path, arguments: str | None = None) -> Program:
    """A user's program: a file with a marked entry point or, with `arguments`, one that defines `f`. Nothing of it is run.

    Raises:
        UserError: the file cannot be read, is not Python, or defines no `f`; or the arguments are none.
        ProgramError: it marks no function that can be an entry point.
    """
    try:
        code = file.read_text(encoding="utf-8-sig")
        bound = Names(ast.parse(code)).bound
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise UserError(f"{file}: is not Python: {one_line(error.msg)} (line {error.lineno})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{file}: is not Python: {one_line(str(error))}") from None
    if arguments is None:
        program = Program(code, str(file))
        if MARKER not in code and FUNCTION in bound:
            raise UserError(f"{file}: marks no entry point, and defines {FUNCTION}: give its arguments with --input")
    elif MARKER in code:
        raise UserError(f"{file}: marks an entry point, which takes no arguments: remove --input, or `{MARKER}`")
    elif FUNCTION not in bound:
        raise UserError(f"{file}: defines no function {FUNCTION}, which --input gives arguments to")
    else:
        _check_arguments(arguments)
        program = Program.from_call(code, arguments, str(file), FUNCTION)
    program.entry_point()
    return program


def prompt_spans(program: Program, data: DataConfig) -> list[Span]:
    """The context of a program's trace: the program, and in formats that seed it the entry's first frame, whose state is empty.

    Raises:
        UserError: the entry has parameters, whose values only a run tells.
        ProgramError: the program has no entry point.
    """
    entry = program.entry_point()
    form = FORMATS[data.format]
    if isinstance(form, Cwm) and form.seeded and _has_parameters(program, entry.line):
        raise UserError(
            f"{program.name}: the marked function {entry.name} has parameters, and only a run tells their values, which its prompt "
            "shows: mark a function without any"
        )
    source = program.physical_lines()[entry.line - 1]
    # What follows the first frame is no part of the context, so that any return stands for it.
    frames = [
        Frame(Event.CALL, entry.line, source, {}),
        Frame(Event.RETURN, entry.line, source, None, Value("None", "NoneType")),
    ]
    written = render(
        Trace(program, frames), data.format, data.reveal, context=data.context, string_encoding=data.string_encoding
    )
    return [span for span in written.spans if span.role is Role.CONTEXT]


def _check_arguments(arguments: str) -> None:
    whole = f"{FUNCTION}({arguments})"
    try:
        called = ast.parse(whole, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        called = None
    match called:
        case ast.Call(func=ast.Name(), end_lineno=1, end_col_offset=end) if end == len(whole.encode()):
            return
    raise UserError(f"--input {shown(arguments)}: is not the arguments of a call, on one line, such as \"'abc', 3\"")


def _has_parameters(program: Program, line: int) -> bool:
    for node in ast.walk(ast.parse(program.code)):
        if isinstance(node, ast.FunctionDef) and node.lineno == line:
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return bool(named or arguments.vararg or arguments.kwarg)
    return False
