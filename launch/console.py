"""Common parts of all command lines: plain help, log lines on the terminal, and errors of a user or a machine as one message."""

from __future__ import annotations

import errno
import logging
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from remedy.data_gen.execution.program import ProgramError
from remedy.messages import cut, escaped, one_line
from remedy.settings import UserError

LONGEST = 1000
"""Characters of a line; a path may be in it."""
_FULL = "; make room and give the same command again: what is whole stays, and it goes on from there"


MAIN = ("init", "generate", "show", "train", "evaluate", "report", "run")
"""Commands of the main path, in its order; the others are tools."""


class Commands(TyperGroup):
    """The commands in two groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        tools = [name for name in self.commands if name not in MAIN]
        for title, names in (("Commands", MAIN), ("Tools", tools)):
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(300)) for name in names])


class SettingsCommand(TyperCommand):
    """A command whose `--help` ends with the settings of its YAML file."""

    def get_help(self, ctx: Any) -> str:
        from remedy.launch.reference import as_help, settings_class

        text: str = super().get_help(ctx)
        return f"{text}\n\nSettings, in the YAML file or as key=value:\n{as_help(settings_class(self.name or ''))}"


class _Print(logging.Handler):
    """Prints messages as they are, warnings to stderr, so that they appear above a line that moves."""

    def emit(self, record: logging.LogRecord) -> None:
        print(
            escaped(self.format(record), "\n"),
            file=sys.stderr if record.levelno >= logging.WARNING else sys.stdout,
            flush=True,
        )


def show_logs() -> None:
    """Show what the package logs."""
    logger = logging.getLogger("remedy")
    logger.setLevel(logging.INFO)
    logger.handlers = [_Print()]
    logger.propagate = False


def show_source(text: str) -> None:
    """Print what is or holds a program's text: exactly, but to a terminal without what one obeys."""
    print(escaped(text, "\n\t") if sys.stdout.isatty() else text, end="")


def command_line(**options: Any) -> typer.Typer:
    """A command line of plain text; tracebacks as Python prints them."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


def written_to(path: str) -> Path:
    """Return what an option names to write to. A shell makes an empty name of a variable that is not set, and `Path` the current
    folder."""
    if not path.strip():
        raise typer.BadParameter("an empty name would mean the current folder: name a folder, or give . for this one")
    return Path(path)


def target(help: str) -> Any:
    """The option that says where a command writes."""
    return typer.Option(help=help, parser=written_to, metavar="<path>")


def start(app: typer.Typer) -> None:
    """Run a command line: what the package logs is shown; what a user can put right is one message and exit status 2, and an
    interrupt one line and 130. Any other exception is a mistake of ours, and keeps its traceback."""
    show_logs()
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except (SystemExit, KeyboardInterrupt) as leaving:
        # Typer turns an interrupt into an exit, or (older ones) into an abort, but not while it reads the command line.
        if not _interrupted(leaving if isinstance(leaving, KeyboardInterrupt) else leaving.__context__):
            raise
        _leave("interrupted: what is written stays, and the same command goes on from there", 130)
    except Exception as error:
        words = in_words(error)
        if words is None:
            raise
        _leave(f"error: {words}", 2)


def in_words(error: BaseException) -> str | None:
    """Return what a user reads of an error that is one of theirs or of their machine's; None for a mistake of ours."""
    if isinstance(error, UserError):
        return "\n".join(one_line(line, LONGEST) for line in str(error).splitlines())
    if isinstance(error, ProgramError):
        return one_line(str(error), LONGEST)
    if isinstance(error, OSError):
        return one_line(_of_the_system(error))
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        said = f" ({error})" if str(error) else ""
        return one_line(f"out of memory{said}: make the numbers that say how much is done at a time smaller")
    return None


def _of_the_system(error: OSError) -> str:
    """The path, what the system says, and what can be done about it."""
    if error.errno is None:
        return str(error) or type(error).__name__
    place = f"{cut(str(error.filename), 200)}: " if error.filename else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"{place}{error.strerror or error.errno}{_FULL if full else '; choose another path' if place else ''}"


def _interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _leave(words: str, status: int) -> NoReturn:
    print(words, file=sys.stderr, flush=True)
    sys.exit(status)
