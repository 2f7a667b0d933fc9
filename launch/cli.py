"""The `remedy` command line."""

from __future__ import annotations

import itertools
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from remedy.launch.console import command_line, start
from remedy.launch.reference import SETTINGS, as_help, settings_class
from remedy.plugins import PluginError, ask_for_plugins
from remedy.settings import UserError

MAIN = {
    "init": ("init", "Write an experiment over your own programs: a baseline, strings by characters, sparse states."),
    "generate": ("generate", "Write a data set as Parquet shards with a data card; run again to continue."),
    "show": ("show", "Show a program's trace, an example or a decoded record by role."),
    "train": ("train", "Train a model in this process (under `torchrun` or `deepspeed`: launch/train.py)."),
    "evaluate": ("evaluate", "Run diagnostics on a checkpoint; run again to continue."),
    "report": ("tools", "Write Markdown and one HTML page with figures and the verdict table."),
    "run": ("tools", "Run an experiment from training to report, here or as a Slurm array; what is done is skipped."),
}
"""Commands of the main path, in order: the module of the function, perhaps with its name, and the line in `--help`."""
TOOLS = {
    "rewrite": ("rewrite", "Print a file with its functions rewritten so that they do the same in smaller steps."),
    "simulate": (
        "simulate",
        "Print a model's trace of your program, frame by frame, with the model's own probability of it.",
    ),
    "harvest": ("tools", "Make programs of packages: real functions, with calls that were really made."),
    "merge": ("tools", "Write a LoRA run as one model that needs no adapters."),
    "push": ("push", "Push a model or a data set with its card to the Hugging Face hub, or list what would be."),
    "measure": ("tools", "Count what traces cost and how tokenizers cut strings, without a model."),
    "compare": ("tools", "Judge two models' logs of lm-eval or inspect_ai, or tables, by the same rules."),
    "export-benchmark": (
        "tools:export_benchmark",
        "Freeze examples for others: JSONL, tasks for lm-eval and inspect_ai, a scorer.",
    ),
    "list": ("choices:print_choices", "Print what settings choose from by name: tasks, mixers, formats and others."),
}


class SettingsCommand(TyperCommand):
    """A command whose `--help` ends with the settings of its YAML file."""

    def get_help(self, ctx: Any) -> str:
        settings = as_help(settings_class(self.name or ""))
        heading = "Settings, in the YAML file or as key=value; docs/config.md describes every key:"
        return f"{super().get_help(ctx)}\n\n{heading}\n{settings}"


class Commands(TyperGroup):
    """The commands, each imported when named, to keep `remedy --help` quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*MAIN, *TOOLS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in MAIN | TOOLS:
            return None
        module, _, name = (MAIN | TOOLS)[cmd_name][0].partition(":")
        app = command_line()
        kind = SettingsCommand if cmd_name in SETTINGS else TyperCommand
        app.command(cmd_name, cls=kind)(getattr(import_module(f"remedy.launch.{module}"), name or cmd_name))
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in (("Commands", MAIN), ("Tools", TOOLS)):
            with formatter.section(title):
                formatter.write_dl([(name, help_line) for name, (_, help_line) in commands.items()])


app = command_line(cls=Commands, no_args_is_help=True)


def _version(value: bool) -> None:
    if value:
        from remedy import __version__

        print(f"cwm-remedy {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="of any command: a module of your own, or its path; what it registers can be named"
        ),
    ] = None,
) -> None:
    """Test mitigations of the failures of code world models: generate traces, train, evaluate, compare."""
    try:
        ask_for_plugins(plugin or ())
    except PluginError as error:
        raise UserError(f"--plugin: {error}") from None


def _plugins_first(arguments: list[str]) -> list[str]:
    first: list[str] = []
    others: list[str] = []
    remaining = iter(arguments)
    for word in remaining:
        if word == "--plugin":
            first += [word, *itertools.islice(remaining, 1)]
        else:
            (first if word.startswith("--plugin=") else others).append(word)
    return [*first, *others]


def main(*words: str) -> None:
    """Run the command line, or its command `words`."""
    sys.argv[1:] = _plugins_first([*words, *sys.argv[1:]])
    start(app)


if __name__ == "__main__":
    main()
