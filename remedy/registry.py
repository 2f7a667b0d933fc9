"""Registries: what a configuration chooses by name. To add a choice, write it in one file and register it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import AfterValidator, BeforeValidator

from remedy.messages import shown, suggest
from remedy.mistakes import unknown_keys
from remedy.plugins import PluginError, load_known_plugins, missing_plugins
from remedy.settings import ConfigError

T = TypeVar("T")


class Registry(dict[str, T]):
    """Choices by name. `what` names one of them in messages; a look-up of an unknown name suggests the nearest."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # typing hashes what an Annotated holds

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that adds a choice under a name.

        Raises:
            ValueError: the name is taken by something else.
        """

        def add(choice: T) -> T:
            if name in self and self[name] is not choice:
                raise ValueError(f"{self.what} {name!r} is registered already")
            self[name] = choice
            return choice

        return add

    def __missing__(self, name: str) -> T:
        try:
            if load_known_plugins():
                return self[name]
        except PluginError as error:
            raise ConfigError(f"plug-in {error}") from None
        raise ConfigError(f"unknown {self.what} {shown(name)}; {suggest(name, self)}{missing_plugins()}")

    def find(self, name: str) -> T | None:
        """The choice, registered here or by an installed plug-in; None if there is none, as in the records of another machine."""
        try:
            return self[name]
        except ConfigError:
            return None

    def check(self, name: str) -> str:
        """The name, if it is registered, here or by an installed plug-in.

        Raises:
            ValueError: it is not; the message suggests the nearest.
        """
        try:
            self[name]
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return name


@dataclass(frozen=True, kw_only=True)
class OneOf(AfterValidator):
    """Marks a name in the settings that must be registered: `Annotated[str, one_of(ENCODINGS)]`."""

    registry: Registry[Any]


def one_of(registry: Registry[Any]) -> OneOf:
    """Validates that a string is a registered name."""
    return OneOf(registry.check, registry=registry)


@dataclass(frozen=True, kw_only=True)
class ByKind(BeforeValidator):
    """Marks a section whose class is chosen by its `kind`: `Annotated[Task, SerializeAsAny(), by_kind(TASKS)]`."""

    registry: Registry[Any]


def by_kind(registry: Registry[Any], default: str | None = None) -> ByKind:
    """Validates a section as the registered class of its `kind` (of `default` where it gives none)."""

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
    """Refuse keys that only other kinds have, and name these kinds: the kind may have been changed and its keys left."""
    hints = {}
    for key in value:
        having = [other for other, settings in registry.items() if key in settings.model_fields]
        if having and kind not in having:
            hints[key] = f"kind {kind} has none, kind {' and '.join(having)} has"
    if hints and all(key in registry[kind].model_fields or key in hints for key in value):
        raise unknown_keys(hints)
