"""The settings reference: every key of a settings class with its type in words, its default and its description.

`--help` of a command and docs/config.md are both made of these. A class that is registered from outside the package is part
of the reference as soon as it is imported.
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from remedy.registry import ByKind, OneOf
from remedy.settings import Settings

Holds = Literal["one", "list", "dict"]
REQUIRED, SECTION = "required", "section"
KIND = "Chooses the other keys of the section."
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", Any: "any value"}


class Row(NamedTuple):
    """One field. `words` say its type, `default` its default as YAML; `kind`: of the section it is in, "" where that has none.

    `sections`: the settings classes that the field may hold, by their `kind`; `holds` says how many of them: "one", a "list", or
    a "dict" by name.
    """

    key: str
    words: str
    default: str
    description: str
    sections: dict[str, type[Settings]]
    holds: Holds = "one"
    kind: str = ""


def fields(settings: type[Settings], given: Settings | None = None) -> list[Row]:
    """The rows of one class, its sections not entered. `given`: an instance whose values are the defaults to print."""
    return [_row(name, field, given) for name, field in settings.model_fields.items()]


def rows(settings: type[Settings], given: Settings | None = None, prefix: str = "", kind: str = "") -> Iterator[Row]:
    """The rows of a class and of all sections in it, under their whole keys: `train.curriculum.0.steps`, `mixture.NAME.weight`."""
    for row in fields(settings, given):
        yield row._replace(key=prefix + row.key, kind=kind)
        default = getattr(given, row.key) if given is not None else settings.model_fields[row.key].default
        for chosen, section in row.sections.items():
            inner = section_key(prefix, row)
            for below in rows(section, default if type(default) is section else None, f"{inner}.", chosen or kind):
                if not (chosen and below.key == f"{inner}.kind"):  # the row of the section says its kinds
                    yield below


def section_key(prefix: str, row: Row) -> str:
    """Name the place where the sections of a field begin: `train.curriculum.0`, `mixture.NAME`."""
    return f"{prefix}{row.key}{ {'one': '', 'list': '.0', 'dict': '.NAME'}[row.holds] }"


def places(settings: type[Settings], prefix: str = "", kind: str = "") -> Iterator[tuple[type[Settings], str, str]]:
    """A class and those of all sections in it, with the key and the kind of each, in the order of the fields."""
    yield settings, prefix, kind
    for row in fields(settings):
        for chosen, section in row.sections.items():
            yield from places(section, section_key(f"{prefix}." if prefix else "", row), chosen)


def as_help(settings: type[Settings], width: int = 100) -> str:
    """The rows as text for a terminal: key, default and type, and the description below."""
    lines: list[str] = []
    said: dict[tuple[type[Settings], ...], str] = {}
    skipped = "\0"
    for row in rows(settings):
        if row.key.startswith(skipped):
            continue
        sections = tuple(row.sections.values())
        if len(sections) > 1 and sections in said:
            skipped = f"{section_key('', row)}."
            lines.append(f"  {row.key}  (the keys of {said[sections]})")
            lines += textwrap.wrap(row.description, width, initial_indent="      ", subsequent_indent="      ")
            continue
        said.setdefault(sections, section_key("", row))
        default = "" if row.default == SECTION else " required" if row.default == REQUIRED else f" = {row.default}"
        kind = f"{row.kind}: " if row.kind else ""
        lines.append(f"  {row.key}{default}  ({kind}{row.words.replace('`', '')})")
        lines += textwrap.wrap(row.description, width, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def _row(name: str, field: FieldInfo, given: Settings | None) -> Row:
    shape = _shape(field.annotation, field.metadata)
    value = getattr(given, name) if given is not None else field.get_default(call_default_factory=True)
    default = REQUIRED if field.is_required() and given is None else _value(value)
    description = field.description or (KIND if name == "kind" else "")
    return Row(name, shape.words, default, " ".join(description.split()), shape.sections, shape.holds)


class _Shape(NamedTuple):
    words: str
    sections: dict[str, type[Settings]] = {}
    holds: Holds = "one"


def _shape(annotation: Any, metadata: Sequence[Any] = ()) -> _Shape:
    """A type in words, and the settings classes in it."""
    if get_origin(annotation) is Annotated:
        annotation, *own = get_args(annotation)
        return _shape(annotation, [*own, *metadata])
    for mark in metadata:
        if isinstance(mark, OneOf):
            return _Shape(_either(list(mark.registry)))
        if isinstance(mark, ByKind):
            return _section(dict(mark.registry))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return _section({"": annotation})
    if origin in (Union, types.UnionType):
        return _union(arguments, metadata)
    if origin is Literal:
        return _Shape(_either(arguments))
    if origin is tuple or origin is list:
        if len(arguments) == 2 and arguments[1] is not Ellipsis:
            return _Shape(f"[{', '.join(_shape(argument).words for argument in arguments)}]")
        inner = _shape(arguments[0])
        return _Shape(f"list of {_plural(inner.words)}", inner.sections, "list" if inner.sections else "one")
    if origin in (dict, Mapping):
        if arguments[1] is Any:
            return _Shape("mapping")
        inner = _shape(arguments[1])
        return _Shape(f"{_plural(inner.words)} by name", inner.sections, "dict" if inner.sections else "one")
    return _Shape(_WORDS.get(annotation, str(getattr(annotation, "__name__", annotation))) + _bounds(metadata))


def _section(registered: Mapping[str, Any]) -> _Shape:
    kinds = [kind for kind in registered if kind]
    words = f"section of kind {_either(kinds)}" if len(kinds) > 1 else "section"
    return _Shape(words, dict(registered))


def _union(arguments: Sequence[Any], metadata: Sequence[Any]) -> _Shape:
    shapes = [_shape(argument, metadata) for argument in arguments if argument is not type(None)]
    plain = list(dict.fromkeys(shape.words for shape in shapes if not shape.sections))
    found: dict[str, type[Settings]] = {}
    for shape in shapes:
        for kind, section in shape.sections.items():
            own = section.model_fields.get("kind")
            found[kind or (str(own.default) if own is not None and len(shapes) > 1 else "")] = section
    words = [_section(found).words] if found else []
    null = ["null"] if type(None) in arguments else []
    holds: Holds = next((shape.holds for shape in shapes if shape.sections), "one")
    return _Shape(_either([*plain, *words, *null], quoted=False), found, holds)


def _either(choices: Sequence[Any], quoted: bool = True) -> str:
    words = [f"`{choice}`" if quoted else str(choice) for choice in choices]
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _plural(words: str) -> str:
    nouns = {
        "text": "texts",
        "number": "numbers",
        "whole number": "whole numbers",
        "section": "sections",
        "any value": "any values",
        "mapping": "mappings",
        "list": "lists",
    }
    for noun, plural in nouns.items():
        if words == noun or words.startswith(f"{noun} of "):
            return plural + words[len(noun) :]
    return words


def _bounds(metadata: Sequence[Any]) -> str:
    """The limits of a number; pydantic keeps each in an object of its own."""
    signs = ((Ge, "ge", ">="), (Gt, "gt", ">"), (Le, "le", "<="), (Lt, "lt", "<"))
    found = [
        f"{sign} {_bound(getattr(mark, name))}" for mark in metadata for kind, name, sign in signs if type(mark) is kind
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
