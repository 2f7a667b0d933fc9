"""Registries: what can be chosen by name in a configuration. To add a choice, write it in one file and register it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BeforeValidator, GetCoreSchemaHandler, SerializeAsAny
from pydantic_core import PydanticCustomError, core_schema

from remedy.data_gen.settings import ConfigError, Settings, suggest

T = TypeVar("T")
S = TypeVar("S", bound=Settings)
