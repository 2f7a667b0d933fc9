"""`remedy list`: what settings choose from by name."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, get_args

import typer

from remedy.launch.reference import SETTINGS, fields, indented, places, settings_class
from remedy.messages import suggest
from remedy.plugins import PluginError, load_known_plugins
from remedy.registry import ByKind, OneOf, Registry
from remedy.settings import ConfigError


def print_choices(
    what: Annotated[str, typer.Argument(help="a setting: task, mixers, format, diagnostics, ... (default: all)")] = "",
) -> None:
    """Print what settings choose from by name: tasks, mixers, formats, diagnostics and others."""
    try:
        load_known_plugins()
    except PluginError as error:
        raise ConfigError(f"plug-in {error}") from None
    choices: dict[str, tuple[str, str, Registry[Any]]] = {}
    for command in SETTINGS:
        for settings, section, _ in places(settings_class(command)):
            for row in fields(settings):
                field = settings.model_fields[row.key]
                for registry in _registries([field.annotation, *field.metadata]):
                    if all(registry is not known for *_, known in choices.values()):
                        choices[row.key] = f"{section}.{row.key}".lstrip("."), row.description, registry
    if what and what not in choices:
        raise ConfigError(f"list: {what!r} is no setting with choices; {suggest(what, choices)}")
    for key, description, registry in [choices[what]] if what else choices.values():
        print(key, *indented(description), sep="\n")
        width = max(map(len, registry))
        for name, choice in registry.items():
            print(f"      {name:<{width}}  {_about(choice)}".rstrip())
        print()


def _registries(parts: Iterable[Any]) -> Iterator[Registry[Any]]:
    for part in parts:
        if isinstance(part, OneOf | ByKind):
            yield part.registry
        yield from _registries(get_args(part))


def _about(choice: Any) -> str:
    """Return the first sentences of a class or function of ours; of a family, its functions."""
    ours = (inspect.isclass(choice) or inspect.isfunction(choice)) and choice.__module__ != "builtins"
    text = (inspect.getdoc(choice) or "") if ours else ", ".join(getattr(choice, "functions", ()))
    return textwrap.shorten(text.partition("\n\n")[0], 110, placeholder=" ...")
