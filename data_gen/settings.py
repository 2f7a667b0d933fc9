"""Typed configuration from YAML and `key=value` overrides, for every part of the toolkit.

Each component's settings are a pydantic model that stands beside the component and is nested in what builds it. An unknown
key is an error that names the key and the nearest valid one.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)


class UserError(Exception):
    """Something the user can put right: printed as one message without a traceback; exit status 2."""


class ConfigError(UserError):
    """A configuration that does not validate; the message names file, key and value."""


def load(model: type[M], path: str | Path, overrides: Sequence[str] = ()) -> M:
    """Read a YAML file, apply `a.b=value` overrides (values are YAML), and validate.

    Raises:
        ConfigError: the file is missing or not YAML, an override is malformed, or the result does not validate.
    """
    path = Path(path)
    return build(model, apply_overrides(read_yaml(path), overrides), str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected `key: value` lines at the top level")
    return data


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with every `a.b.0.c=value` set; a part that is a number indexes a list."""
    result = copy.deepcopy(data)
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"override {override!r}: write key=value, for example train.steps=100")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"override {override!r}: {text!r} is not valid YAML") from None
        parts = key.strip().split(".")
        target: Any = result
        for part in parts[:-1]:
            target = _descend(target, part, override)
        if isinstance(target, list):
            _descend(target, parts[-1], override)
            target[int(parts[-1])] = value
        elif isinstance(target, dict):
            target[parts[-1]] = value
        else:
            raise ConfigError(f"override {override!r}: {'.'.join(parts[:-1])} is not a section")
    return result


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, section by section; a section that names its `kind` takes the place of the old one."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        nested = isinstance(value, dict) and isinstance(old, dict) and "kind" not in value
        merged[key] = merge(old, value) if nested and isinstance(old, dict) else value
    return merged


def _descend(target: Any, part: str, override: str) -> Any:
    if isinstance(target, list):
        if not part.isdigit() or int(part) >= len(target):
            raise ConfigError(f"override {override!r}: {part!r} is not an index of a list of {len(target)}")
        return target[int(part)]
    if isinstance(target, dict):
        if target.get(part) is None:
            target[part] = {}
        return target[part]
    raise ConfigError(f"override {override!r}: nothing below {part!r} can be set")


def build(model: type[M], data: dict[str, Any], where: str) -> M:
    """Validate `data`; `where` (a file's name) starts the message of an error."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = error.errors()
        inner = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
        # A list that came out too short because its items are wrong is no second mistake.
        lines = [f"{where}: {_explain(model, detail)}" for detail in details if detail["loc"] not in inner]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from None


def dump(config: BaseModel) -> str:
    """The resolved configuration as YAML, defaults included."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def suggest(name: str, valid: Iterable[str]) -> str:
    """`did you mean X?` when a valid name is near, else the list of valid names."""
    names = list(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"valid here: {', '.join(names)}"


def _explain(model: type[BaseModel], detail: ErrorDetails) -> str:
    location = list(detail["loc"])
    owner, path = _owner(model, location[:-1] if detail["type"] == "extra_forbidden" else location)
    if detail["type"] == "extra_forbidden":
        name = str(location[-1])
        return f"unknown key {'.'.join([*path, name])!r}; {suggest(name, owner.model_fields if owner else [])}"
    if detail["type"] == "missing":
        return f"missing key {'.'.join(path)!r}"
    if detail["type"].startswith("union_tag"):
        return f"key {'.'.join(path)!r}: {detail['msg']}"
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error":  # a validator of ours: its message says it all
        return f"{'.'.join(path)}: {message}" if path else message
    return f"key {'.'.join(path) or '(top level)'!r}: {message}, got {detail['input']!r}"


def _owner(model: type[BaseModel], location: list[int | str]) -> tuple[type[BaseModel] | None, list[str]]:
    """The model a location points into, and the location as the user writes it, without the names of union branches."""
    current: Any = model
    path: list[str] = []
    for part in location:
        options = _options(current)
        models = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        holders = [o for o in options if get_origin(o) in (list, tuple, dict)]
        fields = [m.model_fields[part] for m in models if isinstance(part, str) and part in m.model_fields]
        tagged = [m for m in models if "kind" in m.model_fields and m.model_fields["kind"].default == part]
        if tagged:
            current = tagged[0]
        elif fields:
            path.append(str(part))
            current = fields[0].annotation
        elif isinstance(part, int) or any(get_origin(holder) is dict for holder in holders):
            path.append(str(part))
            current = _element(holders[0]) if holders else None
    models = [o for o in _options(current) if isinstance(o, type) and issubclass(o, BaseModel)]
    return (models[0] if models else None), path


def _element(holder: Any) -> Any:
    """What a container holds; `tuple[X, ...]` holds X."""
    return [arg for arg in get_args(holder) if arg is not Ellipsis][-1]


def _options(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [option for arg in get_args(annotation) for option in _options(arg)]
    if hasattr(annotation, "__metadata__"):
        return _options(get_args(annotation)[0])
    return [annotation]
