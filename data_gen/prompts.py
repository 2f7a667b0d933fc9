"""Prompt of a program that is not run."""

from __future__ import annotations

import ast

from remedy.data_gen.config import DataConfig
from remedy.data_gen.execution.program import Event, Frame, Program, Trace, Value
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.cwm import Cwm
from remedy.data_gen.traces.render import FORMATS, render
from remedy.settings import UserError


def prompt_spans(program: Program, data: DataConfig) -> list[Span]:
    """Write a program's context: its text and, in seeded formats, its first frame.

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


def _has_parameters(program: Program, line: int) -> bool:
    for node in ast.walk(ast.parse(program.code)):
        if isinstance(node, ast.FunctionDef) and node.lineno == line:
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return bool(named or arguments.vararg or arguments.kwarg)
    return False
