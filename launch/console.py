"""Options, logging and error messages of the commands."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from remedy.data_gen.execution.program import ProgramError
from remedy.files import FULL
from remedy.messages import cut, escaped, install, one_line
from remedy.settings import Settings, UserError, load, read_yaml

LONGEST = 1000
"""Characters of a message's line, which may hold a path."""
TRAINING = ("torch", "transformers", "accelerate", "peft", "wandb")
"""Packages of the extra `train`, without which the other commands run."""
_FULL = "; make room and give the same command again: what is whole stays, and it goes on from there"


def written_to(path: str) -> Path:
    """Return the path to write to.

    An empty name, as of an unset shell variable, is refused: to `Path` it means the current folder.
    """
    if not path.strip():
        raise typer.BadParameter("an empty name would mean the current folder: name a folder, or give . for this one")
    return Path(path)


def target(help: str) -> Any:
    return typer.Option(help=help, parser=written_to, metavar="<path>")


Overrides = Annotated[list[str] | None, typer.Argument(metavar="[key=value ...]", help="settings to change")]
Checkpoint = Annotated[str, typer.Argument(help="a run's folder, or any Hugging Face causal language model")]
Arguments = Annotated[
    str | None, typer.Option(help="arguments of `f`, in a program that marks no function: \"'abc', 3\"")
]
Page = Annotated[Path | None, target("write a page instead")]
Workers = Annotated[int, typer.Option(min=1, max=1000, help="processes")]


S = TypeVar("S", bound=Settings)


def load_one(kind: type[S], config: str, overrides: Sequence[str] | None) -> S:
    """Read the settings of a command's file.

    Raises:
        UserError: they do not validate, or are an experiment's.
    """
    if "groups" in read_yaml(Path(config)):
        raise UserError(
            f"{config} is an experiment, of many runs: `remedy run {config}` makes their data and does them all, and says with --plan "
            "which these are"
        )
    return load(kind, config, overrides or [])


class _Print(logging.Handler):
    """Log handler that prints messages above a progress line."""

    def emit(self, record: logging.LogRecord) -> None:
        file = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        print(escaped(self.format(record), "\n"), file=file, flush=True)


def show_source(text: str) -> None:
    """Print a program's text, on a terminal without control characters."""
    print(escaped(text, "\n\t") if sys.stdout.isatty() else text, end="")


def command_line(**options: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)


def start(app: Callable[[], object]) -> None:
    with reporting():
        app()


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Show the package's log; turn errors into one message and an exit status.

    A user's or the system's error exits with 2, an interrupt with 130. Bugs keep their traceback.
    """
    logger = logging.getLogger("remedy")
    logger.setLevel(logging.INFO)
    logger.handlers = [_Print()]
    logger.propagate = False
    try:
        # `entry.main` left the system's handler for the time of imports.
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    except (SystemExit, KeyboardInterrupt) as leaving:
        # Typer turns an interrupt into an exit, except while it parses the command line.
        if not _interrupted(leaving if isinstance(leaving, KeyboardInterrupt) else leaving.__context__):
            raise
        _leave("interrupted: what is written stays, and the same command goes on from there", 130)
    except Exception as error:
        message = in_words(error)
        if message is None:
            raise
        _leave(f"error: {message}", 2)


def in_words(error: BaseException) -> str | None:
    """Return the message of a user's or the system's error, else None."""
    if isinstance(error, (UserError, ProgramError)):
        return "\n".join(one_line(line, LONGEST) for line in str(error).splitlines())
    if isinstance(error, OSError):
        return one_line(_system_message(error))
    if isinstance(error, ModuleNotFoundError) and error.name in TRAINING:
        return f"this needs {error.name}, which is not installed: {install('train')}"
    # PyTorch's by its name: an import of seconds, which most commands do without.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        details = f" ({error})" if str(error) else ""
        return one_line(f"out of memory{details}: make the numbers that say how much is done at a time smaller")
    return None


def _system_message(error: OSError) -> str:
    if error.errno is None:
        return str(error) or type(error).__name__
    path = f"{cut(str(error.filename), 200)}: " if error.filename else ""
    return f"{path}{error.strerror or error.errno}{_FULL if error.errno in FULL else '; choose another path' if path else ''}"


def _interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _leave(message: str, status: int) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    sys.exit(status)
