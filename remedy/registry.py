"""Registries of choices by name."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator

from remedy.messages import shown, suggest
from remedy.mistakes import unknown_keys
from remedy.plugins import PluginError, load_known_plugins, missing_plugins
from remedy.settings import ConfigError

T = TypeVar("T")


class _Module(str):
    """A module, in place of the choice that it registers when it is imported."""


class Registry(UserDict[str, T]):
    """Choices by name; an unknown name suggests the nearest. `what` is their noun.

    `modules`: the names of choices, separated by spaces, by the module that registers them. It is imported when one of
    them is looked up, and not to list names or check one.
    """

    __hash__ = object.__hash__  # typing hashes what an Annotated holds

    def __init__(self, what: str, modules: Mapping[str, str] = {}) -> None:
        super().__init__()
        self.what = what
        for module, names in modules.items():
            self.data |= dict.fromkeys(names.split(), cast(T, _Module(module)))

    def __getitem__(self, name: str) -> T:
        if isinstance(module := self.data.get(name), _Module):
            import_module(module)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:  # UserDict would look it up, before Python 3.12
            return default
        return self[name]

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds a choice.

        Raises:
            ValueError: another choice has the name.
        """

        def add(choice: T) -> T:
            held = self.data.get(name, choice)
            if held is not choice and held != getattr(choice, "__module__", None):
                raise ValueError(f"{self.what} {name!r} is registered already")
            self[name] = choice
            return choice

        return add

    def __missing__(self, name: str) -> T:
        try:  # installed plug-ins are imported only now, since that may be slow
            if load_known_plugins():
                return self[name]
        except PluginError as error:
            raise ConfigError(f"plug-in {error}") from None
        raise ConfigError(f"unknown {self.what} {shown(name)}; {suggest(name, self)}{missing_plugins()}")

    def find(self, name: str) -> T | None:
        """Return the choice, or None if unknown, as in another machine's records."""
        try:
            return self[name]
        except ConfigError:
            return None

    def check(self, name: str) -> str:
        """Return the name if it is registered.

        Raises:
            ValueError: suggests the nearest name.
        """
        try:
            if name not in self:
                self[name]
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return name


@dataclass(frozen=True, kw_only=True)
class OneOf(AfterValidator):
    """Validator of registered names: `Annotated[str, one_of(ENCODINGS)]`."""

    registry: Registry[Any]


def one_of(registry: Registry[Any]) -> OneOf:
    return OneOf(registry.check, registry=registry)


@dataclass(frozen=True, kw_only=True)
class ByKind(BeforeValidator):
    """Validator of sections by `kind`: `Annotated[Task, SerializeAsAny(), by_kind(TASKS)]`."""

    registry: Registry[Any]


def by_kind(registry: Registry[Any], default: str | None = None) -> ByKind:
    """Validate a section as the class of its `kind`, or of `default`."""

    def resolve(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        kind = value.get("kind", default)
        if not isinstance(kind, str):
            raise ValueError(f"a {registry.what} needs its `kind`: one of {', '.join(registry)}")
        registry.check(kind)
        _refuse_keys_of_others(registry, kind, value)
        return registry[kind].model_validate({**value, "kind": kind})

    return ByKind(resolve, registry=registry)


def _refuse_keys_of_others(registry: Registry[Any], kind: str, value: Mapping[str, Any]) -> None:
    hints = {}
    for key in value:
        having = [other for other, settings in registry.items() if key in settings.model_fields]
        if having and kind not in having:
            hints[key] = f"kind {kind} has none, kind {' and '.join(having)} has"
    if hints and all(key in registry[kind].model_fields or key in hints for key in value):
        raise unknown_keys(hints)
