"""Settings reference: the docstrings of the settings, and their types in words.

`--help` and docs/config.md (`python -m remedy.launch.reference docs/config.md`) are made of it, with the classes of
imported plug-ins.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic_core import PydanticUndefined

from remedy.files import write_text
from remedy.registry import ByKind, OneOf
from remedy.settings import Configuration, Settings

SETTINGS = {
    "train": "remedy.train.config:RunConfig",
    "generate": "remedy.launch.generate:GenerateConfig",
    "evaluate": "remedy.eval.config:EvalConfig",
    "measure": "remedy.eval.costs.measure:MeasureConfig",
    "run": "remedy.launch.experiment:ExperimentConfig",
}
"""The class of each command's YAML file, as text, so that it is imported when needed."""
REQUIRED, SECTION = "required", "section"
KIND = "Chooses the other keys of the section."
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", Any: "any value"}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


class Shape(NamedTuple):
    """A type in words, and its settings classes by `kind` ("" without one)."""

    words: str
    sections: Mapping[str, type[Settings]] = {}
    below: str = ""
    """What stands between the key and those of a section: `.0` in a list, `.NAME` in a mapping."""


class Row(NamedTuple):
    """One field; `default` is YAML."""

    key: str
    shape: Shape
    default: str
    description: str


def fields(settings: type[Settings]) -> list[Row]:
    texts, rows = _descriptions(settings), []
    for name, field in settings.model_fields.items():
        description = texts.get(name) or field.description or (KIND if name == "kind" else "")
        default = _value(field.get_default(call_default_factory=True))
        rows.append(Row(name, _shape(field.annotation, field.metadata), default, " ".join(description.split())))
    return rows


def _descriptions(settings: type[Settings]) -> dict[str, str]:
    """Read the string below each field; pydantic would for every class of every command, which takes a while."""
    texts = {}
    for base in reversed(settings.__mro__[: settings.__mro__.index(Settings)]):
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):  # a plug-in may make its class without source
            continue
        # Indented if a function makes the class.
        tree = ast.parse(f"if True:\n{source}" if source[0].isspace() else source)
        definition = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        for statement, below in itertools.pairwise(definition.body):
            match statement, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    texts[name] = text
    return texts


def places(settings: type[Settings], prefix: str = "", kind: str = "") -> Iterator[tuple[type[Settings], str, str]]:
    """Yield a class and its sections, each with its key and kind."""
    yield settings, prefix, kind
    for row in fields(settings):
        for section_kind, section in row.shape.sections.items():
            yield from places(section, f"{prefix}.{row.key}{row.shape.below}".lstrip("."), section_kind)


def as_help(settings: type[Settings]) -> str:
    """Write the settings of a file for a terminal."""
    lines: list[str] = []
    for row in fields(settings):
        default = {SECTION: "", REQUIRED: " required"}.get(row.default, f" = {row.default}")
        lines.append(f"  {row.key}{default}  ({row.shape.words.replace('`', '')})")
        lines += indented(row.description)
        for kind, section in row.shape.sections.items():
            if keys := ", ".join(key for key in section.model_fields if key != "kind"):
                lines += indented(f"{row.key}{row.shape.below}.*{f' ({kind})' if kind else ''}: {keys}")
    return "\n".join(lines)


def indented(text: str) -> list[str]:
    """Break a text into lines for a terminal."""
    return textwrap.wrap(text, 100, initial_indent="      ", subsequent_indent="      ")


def _shape(annotation: Any, metadata: Sequence[Any] = ()) -> Shape:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0], [*arguments[1:], *metadata])
    for mark in metadata:
        if isinstance(mark, OneOf):
            return Shape(_either(mark.registry))
        if isinstance(mark, ByKind):
            return _section(mark.registry)
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return _section({"": annotation})
    if origin in (Union, types.UnionType):
        return _union([_shape(argument, metadata) for argument in arguments])
    if origin is Literal:
        return Shape(_either(arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return Shape(f"[{', '.join(_shape(argument).words for argument in arguments)}]")
    if origin in (tuple, list):
        words, sections, _ = _shape(arguments[0])
        return Shape(f"list of {_plural(words)}", sections, ".0")
    if origin in (dict, Mapping):
        words, sections, _ = _shape(arguments[1])
        return Shape("mapping" if arguments[1] is Any else f"{_plural(words)} by name", sections, ".NAME")
    if annotation is type(None):
        return Shape("null")
    return Shape(_WORDS.get(annotation, getattr(annotation, "__name__", str(annotation))) + _limits(metadata))


def _section(sections: Mapping[str, type[Settings]]) -> Shape:
    return Shape(f"section of kind {_either(sections)}" if len(sections) > 1 else "section", dict(sections))


def _union(shapes: Sequence[Shape]) -> Shape:
    sections = {
        kind or str(section.model_fields["kind"].default if "kind" in section.model_fields else ""): section
        for shape in shapes
        for kind, section in shape.sections.items()
    }
    words = dict.fromkeys(_section(sections).words if shape.sections else shape.words for shape in shapes)
    return Shape(_either(words, "{}"), sections, "".join(shape.below for shape in shapes if shape.sections))


def _either(choices: Iterable[Any], form: str = "`{}`") -> str:
    *words, last = [form.format(choice) for choice in choices]
    return f"{', '.join(words)} or {last}" if words else last


def _plural(words: str) -> str:
    return re.sub(r"^(text|number|whole number|section|any value|mapping|list)(?=$| of )", r"\1s", words)


def _limits(metadata: Sequence[Any]) -> str:
    """Write a number's limits; pydantic keeps each in its own object."""
    limits = [(sign, getattr(mark, name)) for mark in metadata for name, sign in _SIGNS.items() if hasattr(mark, name)]
    return " and".join(f" {sign} {'2^64' if limit == 2**64 else format(limit, ',.15g')}" for sign, limit in limits)


def _value(value: Any) -> str:
    if value is PydanticUndefined or isinstance(value, Settings):
        return SECTION if isinstance(value, Settings) else REQUIRED
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


def settings_class(command: str) -> type[Settings]:
    settings: type[Settings] = resolve_name(SETTINGS[command])
    return settings


def markdown() -> str:
    """Write docs/config.md: every settings class, in the commands' order."""
    used: dict[type[Settings], dict[str, dict[str, None]]] = {}
    table = ["| command | file |\n|---|---|"]
    for command in SETTINGS:
        table.append(f"| `remedy {command}` | {_link(settings_class(command))} |")
        for settings, key, kind in places(settings_class(command)):
            location = f"`{key}`" + (f" of kind `{kind}`" if kind else "") if key else ""
            used.setdefault(settings, {}).setdefault(location, {})[command] = None
    introduction = (
        f"# Settings\n\nMade from the docstrings of the settings by `make docs`.\n\n{inspect.getdoc(Configuration)}\n"
    )
    return "\n".join([introduction, *table, *(_described(settings, where) for settings, where in used.items())]) + "\n"


def _described(settings: type[Settings], locations: dict[str, dict[str, None]]) -> str:
    file = [f"The file of {', '.join(f'`remedy {name}`' for name in locations.pop(''))}"] if "" in locations else []
    where = "; ".join([*file, *(f"{location} ({', '.join(commands)})" for location, commands in locations.items())])
    lines = [
        f"\n## {settings.__name__}\n\n{where}.\n\n{inspect.getdoc(settings)}\n\n| key | type | default | |\n|---|---|---|---|"
    ]
    for row in fields(settings):
        links = ", ".join(dict.fromkeys(_link(section) for section in row.shape.sections.values()))
        cells = (row.shape.words + (f": {links}" if links else ""), f"`{row.default}`", row.description)
        lines.append(f"| `{row.key}` | {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _link(settings: type[Settings]) -> str:
    return f"[{settings.__name__}](#{settings.__name__.lower()})"


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), markdown())
