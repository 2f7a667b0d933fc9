"""The settings of each command: what `--help` ends with, and docs/config.md (`python -m remedy.launch.reference docs/config.md`).

Classes are named here as text and imported when they are asked for, so that `remedy --help` stays quick.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from remedy.reference import as_help, fields, places
from remedy.settings import Settings

SETTINGS = {
    "train": "remedy.train.config:RunConfig",
    "plan": "remedy.train.config:RunConfig",
    "generate": "remedy.launch.generate:GenerateConfig",
    "evaluate": "remedy.eval.config:EvalConfig",
    "measure": "remedy.eval.costs.measure:MeasureConfig",
    "run": "remedy.launch.experiment:ExperimentConfig",
}
INTRODUCTION = """\
# Settings

Made from the settings classes by `make docs`; a test holds it current. Every key may stand in a command's YAML file or be given
on the command line as `key=value`, with dots between sections and a number for an item of a list
(`train.curriculum.0.steps=100`). Values are YAML: `null`, `.inf`, `[1, 2]`, `{kind: chars}`. An unknown key is an error that names
the nearest one, also under the name that another tool has for it; a setting that would do nothing is an error at any value. `null`
takes a key back that a file or an experiment's base has. Tasks, mixers and diagnostics of your own: `plugins: [module]`. The traces of
given programs are kept in `~/.cache/cwm-remedy` (`$REMEDY_CACHE` names another folder, empty none).
"""


def settings_class(command: str) -> type[Settings]:
    """The class of a command's YAML file."""
    module, _, name = SETTINGS[command].partition(":")
    found: type[Settings] = getattr(import_module(module), name)
    return found


class SettingsCommand(TyperCommand):
    """A command whose `--help` ends with the settings of its YAML file."""

    def get_help(self, ctx: Any) -> str:
        text: str = super().get_help(ctx)
        return f"{text}\n\nSettings, in the YAML file or as key=value:\n{as_help(settings_class(self.name or ''))}"


def markdown() -> str:
    """docs/config.md: a section for every settings class, in the order in which the commands use them."""
    used: dict[type[Settings], dict[str, list[str]]] = {}
    for command in SETTINGS:
        for settings, key, kind in places(settings_class(command)):
            place = f"`{key}`" + (f" of kind `{kind}`" if kind else "") if key else "the file of"
            commands = used.setdefault(settings, {}).setdefault(place, [])
            if command not in commands:
                commands.append(command)
    parts = [INTRODUCTION, "| command | file |\n|---|---|"]
    for command in SETTINGS:
        parts.append(f"| `remedy {command}` | {_link(settings_class(command))} |")
    sections = "".join(_section(settings, where) for settings, where in used.items())
    return "\n".join(parts) + f"\n{sections}"


def _section(settings: type[Settings], where: dict[str, list[str]]) -> str:
    places = "; ".join(
        f"{place} {', '.join(f'`remedy {name}`' for name in commands)}"
        if place == "the file of"
        else f"{place} ({', '.join(commands)})"
        for place, commands in where.items()
    )
    lines = [
        f"\n## {settings.__name__}\n",
        f"{places[0].upper()}{places[1:]}.\n",
        f"{inspect.cleandoc(settings.__doc__ or '')}\n",
    ]
    lines += ["| key | type | default | |", "|---|---|---|---|"]
    for row in fields(settings):
        links = dict.fromkeys(_link(section) for section in row.sections.values())
        cells = (row.words + (f": {', '.join(links)}" if links else ""), f"`{row.default}`", row.description)
        lines.append(f"| `{row.key}` | {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _link(settings: type[Settings]) -> str:
    return f"[{settings.__name__}](#{settings.__name__.lower()})"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
