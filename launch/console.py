"""What all command lines share: plain help, log lines on the terminal, and a user's error as one message with status 2."""

from __future__ import annotations

import logging
import sys
from typing import Any

import typer

from remedy.data_gen.execution.program import ProgramError
from remedy.data_gen.settings import UserError


class _Print(logging.Handler):
    """Prints messages as they are, warnings to stderr, so that they appear above a line that moves."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr if record.levelno >= logging.WARNING else sys.stdout, flush=True)


def show_logs() -> None:
    """Show what the package logs."""
    logger = logging.getLogger("remedy")
    logger.setLevel(logging.INFO)
    logger.handlers = [_Print()]
    logger.propagate = False


def command_line(**options: Any) -> typer.Typer:
    """A command line of plain text; tracebacks as Python prints them."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


def start(app: typer.Typer) -> None:
    """Run a command line: what the package logs is shown, and a user's error is one message and exit status 2."""
    show_logs()
    try:
        app()
    except (UserError, ProgramError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
