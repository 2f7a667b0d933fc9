"""The settings reference: every key of a settings class with its type in words, its default and its description.

`--help` of a command and docs/config.md (`python -m remedy.launch.reference docs/config.md`) are both made of these. A class that is
registered from outside the package is part of the reference as soon as it is imported.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from remedy.files import write_text
from remedy.registry import ByKind, OneOf
from remedy.settings import Settings

SETTINGS = {
    "train": "remedy.train.config:RunConfig",
    "plan": "remedy.train.config:RunConfig",
    "generate": "remedy.launch.generate:GenerateConfig",
    "evaluate": "remedy.eval.config:EvalConfig",
    "measure": "remedy.eval.costs.measure:MeasureConfig",
    "run": "remedy.launch.experiment:ExperimentConfig",
}
"""The class of each command's YAML file, as text, so that it is imported when it is asked for."""
INTRODUCTION = """\
# Settings

Made from the settings classes by `make docs`; a test holds it current. Every key may stand in a command's YAML file or be given
on the command line as `key=value`, with dots between sections and a number for an item of a list
(`train.curriculum.0.steps=100`). Values are YAML: `null`, `.inf`, `[1, 2]`, `{kind: chars}`. An unknown key is an error that names
the nearest one, also under the name that another tool has for it; a setting that would do nothing is an error at any value. `null`
takes a key back that a file or an experiment's base has. Tasks, mixers and diagnostics of your own: `plugins: [module]`. The traces of
given programs are kept in `~/.cache/cwm-remedy` (`$REMEDY_CACHE` names another folder, empty none).
"""
REQUIRED, SECTION = "required", "section"
KIND = "Chooses the other keys of the section."
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", Any: "any value"}
_NOUNS = r"^(text|number|whole number|section|any value|mapping|list)(?=$| of )"
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
WIDTH = 100


class Shape(NamedTuple):
    """A type in words, and the settings classes in it by their `kind`, "" without one; `holds` says how many of these there may be."""

    words: str
    sections: dict[str, type[Settings]] = {}
    holds: Literal["one", "list", "dict"] = "one"


class Row(NamedTuple):
    """One field. `default`: as YAML."""

    key: str
    shape: Shape
    default: str
    description: str

    @property
    def below(self) -> str:
        """Name the place where the field's sections begin: `train.curriculum.0`, `mixture.NAME`."""
        return self.key + {"one": "", "list": ".0", "dict": ".NAME"}[self.shape.holds]


def fields(settings: type[Settings]) -> list[Row]:
    """The rows of one class, its sections not entered."""
    return [_row(name, field) for name, field in settings.model_fields.items()]


def places(settings: type[Settings], prefix: str = "", kind: str = "") -> Iterator[tuple[type[Settings], str, str]]:
    """A class and those of all sections in it, with the key and the kind of each, in the order of the fields."""
    yield settings, prefix, kind
    for row in fields(settings):
        for chosen, section in row.shape.sections.items():
            yield from places(section, f"{prefix}.{row.below}" if prefix else row.below, chosen)


def as_help(settings: type[Settings]) -> str:
    """The settings of a file as text for a terminal: key, default, type and description, and the keys of each section by name."""
    lines: list[str] = []
    for row in fields(settings):
        default = {SECTION: "", REQUIRED: " required"}.get(row.default, f" = {row.default}")
        lines.append(f"  {row.key}{default}  ({row.shape.words.replace('`', '')})")
        lines += _wrapped(row.description)
        for kind, section in row.shape.sections.items():
            if keys := ", ".join(key for key in section.model_fields if key != "kind"):
                lines += _wrapped(f"{row.below}.*{f' ({kind})' if kind else ''}: {keys}")
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ")


def _row(name: str, field: FieldInfo) -> Row:
    value = field.get_default(call_default_factory=True)
    description = field.description or (KIND if name == "kind" else "")
    return Row(name, _shape(field.annotation, field.metadata), _value(value), " ".join(description.split()))


def _shape(annotation: Any, metadata: Sequence[Any] = ()) -> Shape:
    """A type in words, and the settings classes in it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0], [*arguments[1:], *metadata])
    for mark in metadata:
        if isinstance(mark, OneOf):
            return Shape(_either(list(mark.registry)))
        if isinstance(mark, ByKind):
            return _section(dict(mark.registry))
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return _section({"": annotation})
    if origin in (Union, types.UnionType):
        return _union(arguments, metadata)
    if origin is Literal:
        return Shape(_either(arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return Shape(f"[{', '.join(_shape(argument).words for argument in arguments)}]")
    if origin in (tuple, list):
        inner = _shape(arguments[0])
        return Shape(f"list of {_plural(inner.words)}", inner.sections, "list" if inner.sections else "one")
    if origin in (dict, Mapping):
        inner = _shape(arguments[1])
        words = "mapping" if arguments[1] is Any else f"{_plural(inner.words)} by name"
        return Shape(words, inner.sections, "dict" if inner.sections else "one")
    return Shape(_WORDS.get(annotation, str(getattr(annotation, "__name__", annotation))) + _bounds(metadata))


def _section(registered: Mapping[str, Any]) -> Shape:
    kinds = [kind for kind in registered if kind]
    return Shape(f"section of kind {_either(kinds)}" if len(kinds) > 1 else "section", dict(registered))


def _union(arguments: Sequence[Any], metadata: Sequence[Any]) -> Shape:
    shapes = [_shape(argument, metadata) for argument in arguments if argument is not type(None)]
    words = list(dict.fromkeys(shape.words for shape in shapes if not shape.sections))
    found: dict[str, type[Settings]] = {}
    for shape in shapes:
        for kind, section in shape.sections.items():
            own = section.model_fields.get("kind")
            found[kind or (str(own.default) if own is not None and len(shapes) > 1 else "")] = section
    words += [_section(found).words] if found else []
    words += ["null"] if type(None) in arguments else []
    return Shape(_either(words, "{}"), found, next((shape.holds for shape in shapes if shape.sections), "one"))


def _either(choices: Sequence[Any], form: str = "`{}`") -> str:
    words = [form.format(choice) for choice in choices]
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _plural(words: str) -> str:
    return re.sub(_NOUNS, r"\1s", words)


def _bounds(metadata: Sequence[Any]) -> str:
    """The limits of a number; pydantic keeps each in an object of its own."""
    found = [
        f"{sign} {_bound(getattr(mark, name))}"
        for mark in metadata
        for name, sign in _SIGNS.items()
        if hasattr(mark, name)
    ]
    return f" {' and '.join(found)}" if found else ""


def _bound(limit: float) -> str:
    if isinstance(limit, int) and limit >= 1 << 32 and limit & (limit - 1) == 0:
        return f"2^{limit.bit_length() - 1}"
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _value(value: Any) -> str:
    """A default as one writes it in YAML; a section's is given by its own keys."""
    if value is PydanticUndefined:
        return REQUIRED
    if isinstance(value, Settings):
        return SECTION
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


def settings_class(command: str) -> type[Settings]:
    """The class of a command's YAML file."""
    module, _, name = SETTINGS[command].partition(":")
    found: type[Settings] = getattr(import_module(module), name)
    return found


def markdown() -> str:
    """docs/config.md: a section for every settings class, in the order in which the commands use them."""
    used: dict[type[Settings], dict[str, list[str]]] = {}
    table = ["| command | file |\n|---|---|"]
    for command in SETTINGS:
        table.append(f"| `remedy {command}` | {_link(settings_class(command))} |")
        for settings, key, kind in places(settings_class(command)):
            place = f"`{key}`" + (f" of kind `{kind}`" if kind else "") if key else "the file of"
            commands = used.setdefault(settings, {}).setdefault(place, [])
            if command not in commands:
                commands.append(command)
    return "\n".join([INTRODUCTION, *table, *(_described(settings, where) for settings, where in used.items())]) + "\n"


def _described(settings: type[Settings], where: dict[str, list[str]]) -> str:
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
        "| key | type | default | |",
        "|---|---|---|---|",
    ]
    for row in fields(settings):
        links = dict.fromkeys(_link(section) for section in row.shape.sections.values())
        cells = (row.shape.words + (f": {', '.join(links)}" if links else ""), f"`{row.default}`", row.description)
        lines.append(f"| `{row.key}` | {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _link(settings: type[Settings]) -> str:
    return f"[{settings.__name__}](#{settings.__name__.lower()})"


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), markdown())
