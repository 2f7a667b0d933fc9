"""Typed settings from YAML, and the one way to change them.

Files that a user names are trusted, and their plug-ins imported (`load`, `resolve`); stored settings are data
(`read_stored`, `load_stored`). The string below a field describes it in `--help` and docs/config.md. Changes have the
form `{"reveal.spacing": 4}`. Mistakes raise ConfigError.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from yaml.constructor import ConstructorError

from remedy.files import readable
from remedy.messages import cut, one_line, shown
from remedy.mistakes import explain, place_of, suggest_key, unknown_keys
from remedy.plugins import PluginError, asked_plugins, load_plugin, note_plugins

log = logging.getLogger(__name__)
S = TypeVar("S", bound="Settings")
ABSENT = object()
MOST_STORED = 1 << 17
"""The most bytes of stored settings: PyYAML takes half a minute for a MiB."""
_NAMES_BEFORE = {"set": 0, "grid": 0, "runs": 1, "evaluate_runs": 1}
"""Sections whose keys are dotted keys of other settings, with the number of names before these (`runs.NAME.train.seed`: 1)."""


class UserError(Exception):
    """Mistake that the user can correct: one message, exit status 2."""


class ConfigError(UserError):
    """Configuration that does not validate; the message names file, key and value.

    `keys`: those at fault. `idle`: messages by keys that do nothing.
    """

    def __init__(self, message: str, keys: Iterable[str] = (), idle: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.keys = frozenset(keys)
        self.idle = dict(idle or {})


class Settings(BaseModel):
    """Base of all settings: frozen, and closed to unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="constants",  # "null" in changes reads back as None
    )

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            unknown = [str(key) for key in value if key not in cls.model_fields]
            if unknown:  # the first 20: each suggestion takes a while
                raise unknown_keys({key: suggest_key(key, cls) for key in unknown[:20]})
        return value

    def refuse_idle(self, idle: Mapping[str, str]) -> None:
        """Refuse non-default values that do nothing here; `idle` has reasons by dotted key.

        Raises:
            ValueError: says to remove the first.
        """
        refusals: dict[str, str] = {}
        for key, reason in idle.items():
            *names, last = key.split(".")
            section: Any = self
            for name in names:
                section = section[name] if isinstance(section, dict) else getattr(section, name)
            value = getattr(section, last)
            default = type(section).model_fields[last].get_default(call_default_factory=True)
            if value != default:
                written = f"{value:g}" if isinstance(value, float) else cut(str(value))
                null = f", or say {last}=null where a base sets it" if default is None else ""
                refusals[key] = f"{key} {written} does nothing {reason}: remove it{null}"
        if refusals:
            raise PydanticCustomError("idle", "{says}", {"says": next(iter(refusals.values())), "idle": refusals})

    def changed(self: S, changes: Mapping[str, Any], where: str = "") -> S:
        """Return these settings with `{"a.b.0.c": value}` applied; sections are replaced whole."""
        return build(type(self), apply_changes(self.model_dump(), changes, where), where) if changes else self


class Configuration(Settings):
    """Settings that a whole YAML file holds.

    Every key may stand in a command's YAML file or be given on the command line as `key=value`, with dots between sections and a
    number for an item of a list (`train.curriculum.0.steps=100`). Values are YAML: `null`, `.inf`, `[1, 2]`, `{kind: chars}`. An
    unknown key is an error that names the nearest one, also under the name that another tool has for it; a setting that would do
    nothing is an error at any value. `null` takes a key back that a file or an experiment's base has. Tasks, mixers and diagnostics
    of your own: `plugins: [module]`. The traces of given programs are kept in `~/.cache/cwm-remedy` (`$REMEDY_CACHE` names another
    folder, empty none).
    """

    plugins: tuple[str, ...] = ()
    """Modules, or paths of modules, that register tasks, mixers or diagnostics of your own (`@TASKS.register("mine")`), imported
    before anything else; `--plugin` names more."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader that refuses duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node: Any = super().compose_mapping_node(anchor)
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:
                raise ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            keys.add(key.value)
        return node


class _StoredLoader(_Loader):
    """Loader without aliases, of which a few lines can fill the memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise ConstructorError(None, None, "stored settings have no aliases (*)", mark)
        return super().compose_node(parent, index)


def load(model: type[S], path: str | Path, overrides: Sequence[str] = ()) -> S:
    """Read a user's YAML file with overrides, import its plug-ins, and validate."""
    return resolve(model, read_yaml(Path(path)), parse_overrides(overrides), str(path), "override")[0]


def load_stored(model: type[S], path: Path) -> S:
    """Read and validate stored settings."""
    return build(model, read_stored(path), str(path))


def resolve(
    model: type[S], data: Mapping[str, Any], changes: Mapping[str, Any], where: str, of_changes: str = ""
) -> tuple[S, dict[str, str]]:
    """Validate a user's settings with changes; also return messages by dropped keys.

    A change to null drops a key whose setting cannot be null. Keys of `data` that the changes make idle are dropped, and
    the log says so. `of_changes` names the changes in messages; if empty, several runs share `data`, and all its idle
    keys are dropped.
    """
    settings = apply_changes(data, changes, of_changes or where)
    plugins = dict.fromkeys([*_import_plugins(settings, where), *asked_plugins()])
    if plugins and "plugins" in model.model_fields:
        settings["plugins"] = list(plugins)
    changed_keys = tuple(f"{key}." for key in changes)
    left_out: dict[str, str] = {}
    while True:  # each round removes keys that validation refuses and that may be removed
        try:
            return build(model, settings, where), left_out
        except ConfigError as error:
            nulls = {key for key in error.keys if changes.get(key, "") is None}
            kept = (*changed_keys, *(f"{key}." for key in (_idle_keys(model, data) if of_changes else ())))
            idle = {k: message for k, message in error.idle.items() if not f"{k}.".startswith(kept)}
            removed = {key for key in nulls | idle.keys() if take_out(settings, key) is not ABSENT}
            if not removed:
                raise
            left_out.update(idle)
            for message in idle.values() if of_changes else ():
                log.info("%s: left out", message.partition(": remove it")[0])


def _idle_keys(model: type[S], data: Mapping[str, Any]) -> Iterable[str]:
    try:
        build(model, data)
    except ConfigError as error:
        return error.idle
    return ()


def take_out(settings: dict[str, Any], key: str) -> Any:
    """Remove a dotted key; return its value, or `ABSENT`."""
    *sections, last = key.split(".")
    for section in sections:
        settings = settings.get(section, {}) if isinstance(settings, dict) else {}
    return settings.pop(last, ABSENT) if isinstance(settings, dict) else ABSENT


def read_yaml(path: Path, stored: bool = False) -> dict[str, Any]:
    """Read a YAML mapping; with `stored`, refuse aliases."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is no UTF-8 text") from None
    data = _parsed(text, str(path), stored)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected `key: value` lines at the top level")
    return data


def read_stored(path: Path) -> dict[str, Any]:
    """Read stored settings without importing their plug-ins.

    Raises:
        OSError: as `readable`.
    """
    data = read_yaml(readable(path, MOST_STORED), stored=True)
    note_plugins(data.pop("plugins", ()), path)
    return data


def refuse_bombs(text: str, where: str) -> None:
    """Refuse a stranger's YAML that is invalid or slow to read."""
    if len(text) > MOST_STORED:
        raise ConfigError(f"{where}: has more than {MOST_STORED:,} characters of YAML")
    _parsed(text, where, stored=True)


def _parsed(text: str, where: str, stored: bool = False) -> Any:
    try:
        return yaml.load(text, _StoredLoader if stored else _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: an impossible date
        raise ConfigError(f"{where}: not valid YAML: {one_line(str(error))}") from None


def _import_plugins(data: Mapping[str, Any], where: str) -> list[str]:
    names = data.get("plugins", ())
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{where}: plugins: must be a list of modules, such as [my_tasks]")
    try:
        return [load_plugin(name) for name in names]
    except PluginError as error:
        raise ConfigError(f"{where}: plugins: {error}") from None


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Parse the command line's `a.b=value` words."""
    changes = {}
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"override {shown(override)}: write key=value, for example train.max_steps=100")
        changes[key.strip()] = _parsed(text, f"override {shown(override)}")
    return changes


def apply_changes(data: Mapping[str, Any], changes: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return a copy of `data` with every `a.b.0.c: value` set.

    Keys of the data with dots are matched whole, also below mappings of changes (`set.reveal.spacing=4`).
    """
    result: dict[str, Any] = copy.deepcopy(dict(data))
    for key, value in changes.items():
        _change(result, key, value, f"{where}: {cut(key)}" if where else cut(key))
    return result


def _change(target: Any, key: str, value: Any, name: str, names_before: int = -1) -> None:
    """Set one key; `names_before`: names before keys with dots, else negative."""
    head: Any
    head, _, rest = key.partition(".")
    if isinstance(target, list):
        if not head.isdecimal() or int(head) >= len(target):
            raise ConfigError(f"{name}: {shown(head)} is not an index of a list of {len(target)}")
        value_below = target[head := int(head)]
    elif isinstance(target, dict):
        if key in target or names_before == 0:
            head, rest = key, ""
        value_below = target.get(head)
    else:
        raise ConfigError(f"{name}: nothing below {shown(target)} can be set")
    if not rest:
        target[head] = value
        return
    target[head] = {} if value_below is None else list(value_below) if isinstance(value_below, tuple) else value_below
    _change(target[head], rest, value, name, _NAMES_BEFORE.get(head, names_before - 1))


def build(model: type[S], data: Mapping[str, Any], where: str = "") -> S:
    """Validate `data`; errors have a line per mistake, after `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        start = f"{where}: " if where else ""
        details = {".".join(place_of(data, detail)): detail for detail in error.errors()}
        idle = {
            f"{section}.{key}" if section else key: f"{start}{section and f'{section}: '}{message}"
            for section, detail in details.items()
            if detail["type"] == "idle"
            for key, message in detail["ctx"]["idle"].items()
        }
        lines = dict.fromkeys(explain(data, error.errors()))
        raise ConfigError("\n".join(start + line for line in lines), {*details, *idle}, idle) from None


def low_high(setting: int | tuple[int, int]) -> tuple[int, int]:
    """Return the bounds of a setting that is one number or [low, high]."""
    return (setting, setting) if isinstance(setting, int) else setting


def dump(config: BaseModel) -> str:
    """Write the configuration as YAML, with all defaults."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text
