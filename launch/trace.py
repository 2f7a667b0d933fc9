"""`remedy trace`: one file's prompt and trace as text."""

from __future__ import annotations

from pathlib import Path

from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.roles import spans_text
from remedy.data_gen.settings import ConfigError, UserError, build, suggest
from remedy.data_gen.traces.render import FORMATS, render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.string_encodings import ENCODINGS


def trace(
    file: Path, format: str, shown: str, every: str, strings: str, timeout: float, python: str | None = None
) -> str:
    """Trace a file in the sandbox and render it.

    Raises:
        UserError: an option's value is not valid or the file cannot be read.
        ProgramError: the program cannot be traced.
    """
    for option, value, valid in (
        ("--format", format, list(FORMATS)),
        ("--locals", shown, ["full", "diff"]),
        ("--strings", strings, list(ENCODINGS)),
    ):
        if value not in valid:
            raise ConfigError(f"{option} {value!r}: {suggest(value, valid)}")
    policy = build(RevealConfig, {"every": every, "show": "diff" if shown == "diff" else "all"}, "--reveal-every")
    try:
        code = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read as UTF-8 text: {error}") from None
    with Sandbox(TracerConfig(seconds=timeout, python=python)) as sandbox:
        traced = sandbox.trace(Program(code, str(file)))
    spans = render(traced, format, policy, strings=strings)
    if format == "symbolic":
        return spans_text(spans, " ") + "\n"
    return spans_text(spans) + "\n"
