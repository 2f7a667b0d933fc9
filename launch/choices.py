"""`remedy list`: what settings choose from by name."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, get_args

import typer

from remedy.launch.reference import SETTINGS, indented, places, settings_class
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
    choices: dict[Registry[Any], tuple[str, str]] = {}
    for command in SETTINGS:
        for settings, section, _ in places(settings_class(command)):
            for name, field in settings.model_fields.items():
                for registry in _registries([field.annotation, *field.metadata]):
                    choices.setdefault(registry, (f"{section}.{name}".lstrip("."), field.description or ""))
    by_name = {key.split(".")[-1]: registry for registry, (key, _) in choices.items()}
    if what and what not in by_name:
        raise ConfigError(f"list: {what!r} is no setting with choices; {suggest(what, by_name)}")
    for registry in [by_name[what]] if what else choices:
        key, description = choices[registry]
        print(key, *indented(" ".join(description.split())), sep="\n")
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
