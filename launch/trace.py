"""`remedy trace` and `remedy rewrite`: one file's prompt and trace as text, coloured on a terminal, or its source rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import model_validator
from rich.console import Console
from rich.style import Style
from rich.text import Text

from remedy.data_gen.execution.program import MARKER, Program
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.rewrites import REWRITES, rewrite_program, rewrite_source
from remedy.data_gen.roles import Span, Special, spans_text
from remedy.data_gen.traces.marks import MARK, draw_marks, marked_lines
from remedy.data_gen.traces.render import FORMATS, FormatName, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.launch.console import MaybeTexts, Overrides, show_source
from remedy.messages import escaped, suggest
from remedy.settings import ConfigError, Settings, UserError, apply_changes, build, parse_overrides


class TraceConfig(Settings):
    """Settings of `remedy trace`: the keys of a data configuration."""

    format: FormatName = "cwm"
    """The format of the trace."""
    reveal: RevealConfig = RevealConfig()
    """Which frames are written, and what their states show."""
    string_encoding: EncodingName = "plain"
    """How string values are written."""
    tracer: TracerConfig = TracerConfig()
    """How the program is run, and its limits."""

    @model_validator(mode="after")
    def _no_tokenizer(self) -> TraceConfig:
        if self.reveal.max_tokens is not None:
            raise ValueError("reveal.max_tokens is counted with a tokenizer, and text has none: remove it")
        if self.reveal.at is not None and FORMATS[self.format].one_token:
            raise ValueError(f"reveal.at goes by marks, which the {self.format} format does not write: remove it")
        return self


def trace(file: Path, overrides: Sequence[str] = ()) -> tuple[list[Span], str]:
    """Trace a file in the sandbox and render it, with `key=value` settings of `TraceConfig`: its spans, and what stands between tokens.

    Raises:
        UserError: a setting is not valid or the file cannot be read.
        ProgramError: the program cannot be traced.
    """
    config = build(TraceConfig, apply_changes({}, parse_overrides(overrides), "override"))
    program, at = Program(_read(file), str(file)), config.reveal.at
    if isinstance(at, float):
        program = draw_marks(program, at, 0)
    elif at is not None and not marked_lines(program.code):
        raise ConfigError(
            f"reveal.at {at}: no line of {file} ends in `{MARK}`: mark some, or give the share of lines to mark"
        )
    with Sandbox(config.tracer) as sandbox:
        traced = sandbox.trace(program)
    written = render(traced, config.format, config.reveal, string_encoding=config.string_encoding)
    return written.spans, " " if FORMATS[config.format].one_token else ""


def rewrite(file: Path, only: Sequence[str]) -> str:
    """The file's source after the rewrites, all of them if none is named; a marked function stays as it is, and marked.

    Raises:
        UserError: a rewrite is unknown, or the file cannot be read.
        ProgramError: it does not compile.
    """
    for name in only:
        if name not in REWRITES:
            raise ConfigError(f"--only: unknown rewrite {name!r}; {suggest(name, REWRITES)}")
    kinds, code = list(only) or list(REWRITES), _read(file)
    if MARKER in code:
        program = Program(code, str(file))
        program.entry_point()
        return rewrite_program(program, kinds).code
    return rewrite_source(code, kinds, str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {getattr(error, 'strerror', error)}") from None


def print_trace(
    file: Annotated[Path, typer.Argument(help="a Python file with one function marked `# << START_OF_TRACE`")],
    overrides: Overrides = None,
) -> None:
    """Print prompt and trace of a program, exactly as a model sees them; on a terminal in the colours of roles.

    Settings: format, reveal.spacing, reveal.at, reveal.locals, reveal.call_depth, reveal.answer_only, string_encoding, tracer.python
    and the other limits of `tracer`, as in a data configuration. For example reveal.spacing=4 reveal.locals=diff format=repl.
    """
    spans, between = trace(file, overrides or [])
    console = Console()
    if not console.is_terminal or console.no_color:
        show_source(spans_text(spans, between) + "\n")
        return
    text = Text()
    for span in spans:
        style = Style(color=ROLE_COLOURS[span.role.label], dim=isinstance(span.piece, Special), underline=span.string)
        text.append(escaped(spans_text([span]), "\n\t") + between, style)
    console.print(text, soft_wrap=True)


def print_rewrite(
    file: Annotated[Path, typer.Argument(help="a Python file")],
    only: Annotated[MaybeTexts, typer.Option(help="a rewrite to apply, once for each (default: all)")] = None,
) -> None:
    """Print a file with its functions rewritten so that they do the same in smaller steps."""
    show_source(rewrite(file, only or []))
