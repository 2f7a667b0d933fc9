"""`remedy trace`: one file's prompt and trace as text, coloured on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import model_validator
from rich.console import Console
from rich.style import Style
from rich.text import Text

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.roles import Span, Special, spans_text
from remedy.data_gen.traces.render import FORMATS, FormatName, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.eval.tables.colours import ROLE_COLOURS
from remedy.launch.console import show_source
from remedy.messages import escaped
from remedy.settings import Settings, UserError, apply_changes, build, parse_overrides


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
        return self


def trace(file: Path, overrides: Sequence[str] = ()) -> tuple[list[Span], str]:
    """Trace a file in the sandbox and render it, with `key=value` settings of `TraceConfig`: its spans, and what stands between tokens.

    Raises:
        UserError: a setting is not valid or the file cannot be read.
        ProgramError: the program cannot be traced.
    """
    config = build(TraceConfig, apply_changes({}, parse_overrides(overrides), "override"))
    try:
        code = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read as UTF-8 text: {error}") from None
    with Sandbox(config.tracer) as sandbox:
        traced = sandbox.trace(Program(code, str(file)))
    written = render(traced, config.format, config.reveal, string_encoding=config.string_encoding)
    return written.spans, " " if FORMATS[config.format].one_token else ""


def print_spans(spans: list[Span], between: str) -> None:
    """Print a trace: exactly, but on a terminal in the colours of roles, and without what one obeys."""
    console = Console()
    if not console.is_terminal or console.no_color:
        show_source(spans_text(spans, between) + "\n")
        return
    text = Text()
    for span in spans:
        style = Style(color=ROLE_COLOURS[span.role.label], dim=isinstance(span.piece, Special), underline=span.string)
        text.append(escaped(spans_text([span]), "\n\t") + between, style)
    console.print(text, soft_wrap=True)
