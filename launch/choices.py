"""`remedy list`: what settings choose from by name, from the registries, with a line on each."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from remedy.messages import suggest
from remedy.plugins import PluginError, load_known_plugins
from remedy.settings import ConfigError

WIDTH = 110
"""Characters of a line beside the name."""
REGISTRIES = {
    "tasks": ("data.task.kind", "data_gen.tasks:TASKS"),
    "benchmarks": ("data.task.benchmark", "data_gen.tasks.program_sources:BENCHMARKS"),
    "families": ("data.task.family", "data_gen.tasks.families:FAMILIES"),
    "formats": ("data.format", "data_gen.traces.render:FORMATS"),
    "encodings": ("data.string_encoding", "data_gen.traces.string_encodings:ENCODINGS"),
    "rewrites": ("data.task.rewrites", "data_gen.rewrites:REWRITES"),
    "tokenizers": ("tokenizer.kind", "models.tokenizer_backends:TOKENIZERS"),
    "mixers": ("model.mixers", "models.mixers:MIXERS"),
    "sizes": ("model.size", "models.config:SIZES"),
    "roles": ("train.loss_roles", "data_gen.roles:ROLES"),
    "diagnostics": ("diagnostics.N.kind", "eval.diagnostics:DIAGNOSTICS"),
    "forcings": ("diagnostics.N.forcing", "eval.decoding.forcings:FORCINGS"),
}
"""What there is, under which key it is chosen, and where it is registered."""
TELLING_APART = {
    "cwm": "As `facebook/cwm` writes: the prompt holds the first frame; a line's text is its action.",
    "cwm_unseeded": "As cwm, but the model writes the first frame too.",
    "cwm_numbered": "As cwm, with each line's number beside it, in the program and in the trace.",
    "cwm_numbers": "As cwm, with each line's number beside it in the program, and in its place in the trace.",
    "chains": "Method chains as one call a line, without changing what is evaluated or in which order.",
    "temporaries": "Nested expressions as one operation a line, put into temporaries.",
}
"""Choices that share a class or a module, whose docstring says nothing of the single one."""


def print_choices(
    what: Annotated[str, typer.Argument(help="tasks, mixers, formats, diagnostics, ... (default: all)")] = "",
) -> None:
    """Print what settings choose from by name, a line for each: tasks, mixers, formats, diagnostics and others."""
    if what and what not in REGISTRIES:
        raise ConfigError(f"list: unknown kind {what!r}; {suggest(what, REGISTRIES)}")
    try:
        load_known_plugins()
    except PluginError as error:
        raise ConfigError(f"plug-in {error}") from None
    for kind in [what] if what else REGISTRIES:
        key, place = REGISTRIES[kind]
        module, _, name = place.partition(":")
        registry: Mapping[str, Any] = getattr(import_module(f"remedy.{module}"), name)
        print(f"{kind} ({key})")
        width = max(map(len, registry))
        for one, choice in registry.items():
            line = TELLING_APART.get(one) or _SAID.get(kind, _of_docstring)(one, choice)
            print(f"  {one:<{width}}  {textwrap.shorten(line, WIDTH, placeholder=' ...')}")
        print()


def _of_docstring(name: str, choice: Any) -> str:
    """The first sentence of its class's docstring, or of its module's."""
    documented: Any = choice if isinstance(choice, type) else type(choice)
    if inspect.isroutine(choice):
        documented = sys.modules[choice.__module__]
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _forcing(name: str, fed: frozenset[Any]) -> str:
    from remedy.eval.decoding.forcings import CONSTRAINED

    masked = {"control_flow": "lines that the code cannot reach", "guided": "also what the written states rule out"}
    held = f", and masks {masked.get(name, 'what the program rules out')}" if name in CONSTRAINED else ""
    return f"feeds {', '.join(role.label for role in sorted(fed))}{held}"


def _role(name: str, role: Any) -> str:
    from remedy.eval.view.model import MEANINGS

    return MEANINGS[role]


_SAID: dict[str, Callable[[str, Any], str]] = {
    "benchmarks": lambda name, benchmark: f"{benchmark.hub} on the Hugging Face hub, or a file given as `path`",
    "families": lambda name, family: f"{len(family.functions)} functions: {', '.join(family.functions)}",
    "sizes": lambda name, size: ", ".join(f"{key} {value}" for key, value in size.items()),
    "encodings": lambda name, encoding: f"'abc' is written {encoding('abc')!r}",
    "forcings": _forcing,
    "roles": _role,
}
