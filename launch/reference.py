"""Settings reference, and `remedy list`.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer
import yaml
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from remedy.files import write_text
from remedy.messages import suggest
from remedy.plugins import PluginError, load_known_plugins
from remedy.registry import ByKind, OneOf
from remedy.settings import ConfigError, Settings

SETTINGS = {
    "train": "remedy.train.config:RunConfig",
    "generate": "remedy.launch.generate:GenerateConfig",
    "evaluate": "remedy.eval.config:EvalConfig",
    "measure": "remedy.eval.costs.measure:MeasureConfig",
    "run": "remedy.launch.experiment:ExperimentConfig",
}
"""The class of each command's YAML file, as text, so that it is imported when needed."""
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
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
WIDTH = 100


class Shape(NamedTuple):
    """A type in words, and its settings classes by `kind` ("" without one)."""

    words: str
    sections: dict[str, type[Settings]] = {}
    holds: Literal["one", "list", "dict"] = "one"


class Row(NamedTuple):
    """One field; `default` is YAML."""

    key: str
    shape: Shape
    default: str
    description: str

    @property
    def below(self) -> str:
        """Return the key of its sections: `train.curriculum.0`, `mixture.NAME`."""
        return self.key + {"one": "", "list": ".0", "dict": ".NAME"}[self.shape.holds]


def fields(settings: type[Settings]) -> list[Row]:
    texts = _descriptions(settings)
    return [_row(name, field, texts.get(name, "")) for name, field in settings.model_fields.items()]


def _descriptions(settings: type[Settings]) -> dict[str, str]:
    """Read the string below each field; pydantic would for every class of every command, which takes a while."""
    texts = {}
    for base in reversed(settings.__mro__[: settings.__mro__.index(Settings)]):
        (definition,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(definition, ast.ClassDef)
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
            yield from places(section, f"{prefix}.{row.below}" if prefix else row.below, section_kind)


def as_help(settings: type[Settings]) -> str:
    """Write the settings of a file for a terminal."""
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


def _row(name: str, field: FieldInfo, description: str) -> Row:
    value = field.get_default(call_default_factory=True)
    description = description or (KIND if name == "kind" else "")
    return Row(name, _shape(field.annotation, field.metadata), _value(value), " ".join(description.split()))


def _shape(annotation: Any, metadata: Sequence[Any] = ()) -> Shape:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0], [*arguments[1:], *metadata])
    for mark in metadata:
        if isinstance(mark, OneOf):
            return Shape(_either(list(mark.names)))
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
    kinds = f" of kind {_either(list(registered))}" if len(registered) > 1 else ""
    return Shape("section" + kinds, dict(registered))


def _union(arguments: Sequence[Any], metadata: Sequence[Any]) -> Shape:
    shapes = [_shape(argument, metadata) for argument in arguments if argument is not type(None)]
    words = list(dict.fromkeys(shape.words for shape in shapes if not shape.sections))
    sections: dict[str, type[Settings]] = {}
    for shape in shapes:
        for kind, section in shape.sections.items():
            kind_field = section.model_fields.get("kind")
            sections[kind or (str(kind_field.default) if kind_field is not None and len(shapes) > 1 else "")] = section
    words += [_section(sections).words] if sections else []
    words += ["null"] if type(None) in arguments else []
    return Shape(_either(words, "{}"), sections, next((shape.holds for shape in shapes if shape.sections), "one"))


def _either(choices: Sequence[Any], form: str = "`{}`") -> str:
    words = [form.format(choice) for choice in choices]
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _plural(words: str) -> str:
    return re.sub(r"^(text|number|whole number|section|any value|mapping|list)(?=$| of )", r"\1s", words)


def _bounds(metadata: Sequence[Any]) -> str:
    """Write a number's limits; pydantic keeps each in its own object."""
    limits = [(sign, getattr(mark, name)) for mark in metadata for name, sign in _SIGNS.items() if hasattr(mark, name)]
    words = " and ".join(f"{sign} {_number(limit)}" for sign, limit in limits)
    return f" {words}" if words else ""


def _number(limit: float) -> str:
    if limit in (2**32, 2**64):
        return f"2^{int(limit).bit_length() - 1}"
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _value(value: Any) -> str:
    if value is PydanticUndefined:
        return REQUIRED
    if isinstance(value, Settings):
        return SECTION
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


def settings_class(command: str) -> type[Settings]:
    module, _, name = SETTINGS[command].partition(":")
    settings: type[Settings] = getattr(import_module(module), name)
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
    return "\n".join([INTRODUCTION, *table, *(_described(settings, where) for settings, where in used.items())]) + "\n"


def _described(settings: type[Settings], locations: dict[str, dict[str, None]]) -> str:
    file = [f"The file of {', '.join(f'`remedy {name}`' for name in locations.pop(''))}"] if "" in locations else []
    places = "; ".join([*file, *(f"{location} ({', '.join(commands)})" for location, commands in locations.items())])
    description = inspect.cleandoc(settings.__doc__ or "")
    lines = [f"\n## {settings.__name__}\n\n{places}.\n\n{description}\n\n| key | type | default | |\n|---|---|---|---|"]
    for row in fields(settings):
        links = dict.fromkeys(_link(section) for section in row.shape.sections.values())
        cells = (row.shape.words + (f": {', '.join(links)}" if links else ""), f"`{row.default}`", row.description)
        lines.append(f"| `{row.key}` | {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _link(settings: type[Settings]) -> str:
    return f"[{settings.__name__}](#{settings.__name__.lower()})"


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), markdown())


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
"""Kinds of choices, each with its key and its registry."""
SHARED_CLASS = {
    "cwm_unseeded": "As cwm, but the model writes the first frame too.",
    "cwm_numbered": "As cwm, with each line's number beside it, in the program and in the trace.",
    "cwm_numbers": "As cwm, with each line's number beside it in the program, and in its place in the trace.",
}
"""Descriptions of choices that share a class and its docstring."""


def print_choices(
    what: Annotated[str, typer.Argument(help="tasks, mixers, formats, diagnostics, ... (default: all)")] = "",
) -> None:
    """Print what settings choose from by name: tasks, mixers, formats, diagnostics and others."""
    if what and what not in REGISTRIES:
        raise ConfigError(f"list: unknown kind {what!r}; {suggest(what, REGISTRIES)}")
    try:
        load_known_plugins()
    except PluginError as error:
        raise ConfigError(f"plug-in {error}") from None
    for kind in [what] if what else REGISTRIES:
        key, location = REGISTRIES[kind]
        module, _, name = location.partition(":")
        registry: Mapping[str, Any] = getattr(import_module(f"remedy.{module}"), name)
        print(f"{kind} ({key})")
        width = max(map(len, registry))
        for choice_name, choice in registry.items():
            line = SHARED_CLASS.get(choice_name) or _DESCRIPTIONS.get(kind, _of_docstring)(choice_name, choice)
            print(f"  {choice_name:<{width}}  {textwrap.shorten(line, 110, placeholder=' ...')}")
        print()


def _of_docstring(name: str, choice: Any) -> str:
    return " ".join((inspect.getdoc(choice) or "").split("\n\n")[0].split())


def _forcing(name: str, fed: frozenset[Any]) -> str:
    from remedy.eval.decoding.forcings import CONSTRAINED

    constraint = ", and masks lines that the code cannot reach" if name in CONSTRAINED else ""
    return f"feeds {', '.join(role.label for role in sorted(fed))}{constraint}"


def _role(name: str, role: Any) -> str:
    from remedy.eval.view.model import MEANINGS

    return MEANINGS[role]


_DESCRIPTIONS: dict[str, Callable[[str, Any], str]] = {
    "benchmarks": lambda name, benchmark: f"{benchmark.hub} on the Hugging Face hub, or a file given as `path`",
    "families": lambda name, family: f"{len(family.functions)} functions: {', '.join(family.functions)}",
    "sizes": lambda name, size: ", ".join(f"{key} {value}" for key, value in size.items()),
    "encodings": lambda name, encoding: f"'abc' is written {encoding('abc')!r}",
    "forcings": _forcing,
    "roles": _role,
}
