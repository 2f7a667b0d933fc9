"""YAML text to plain data: sections, lists, texts, numbers, truth values and null, of a bounded depth and size.

What YAML has beyond these is no setting's value, or is a trap: dates stay the text they are written as, tags and keys that are
no text are refused, a key that is given twice is an error in place of the last one winning, and aliases may neither lead back to
themselves nor stand for more than was written.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from remedy.data_gen.messages import shown

DEPTH = 40
"""Levels of lists and sections in each other."""
SIZE = 200_000
"""Values in all, what an alias stands for counted each time."""
_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATE, _MERGE = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """Text that is no YAML, or holds what no setting can be; one line that says what and where."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates and tags, that sees a key given twice."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in _TAGS
    }

    def compose_mapping_node(self, anchor: Any) -> Any:
        node: Any = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                raise ConstructorError(None, None, f"key {shown(key.value)} is given twice", key.start_mark)
            seen.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: Any) -> None:
        super().flatten_mapping(node)
        if len(node.value) > SIZE:
            raise ConstructorError(None, None, f"more than {SIZE:,} merged keys", node.start_mark)


def read(text: str) -> Any:
    """The data of a YAML text.

    Raises:
        YamlError: the text is no YAML, or holds what no setting can be.
    """
    try:
        data = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except RecursionError:
        raise YamlError(f"nested deeper than {DEPTH} levels") from None
    except (ValueError, OverflowError) as error:  # a number of too many digits: PyYAML leaves these to Python
        raise YamlError(str(error).partition(";")[0]) from None
    return _Plain().copy(data)


class _Plain:
    """Copies data without shared parts, and refuses what no setting can be."""

    def __init__(self) -> None:
        self.values = 0

    def copy(self, value: Any, depth: int = 0) -> Any:
        self.values += 1
        if depth > DEPTH:
            raise YamlError(f"nested deeper than {DEPTH} levels, or an alias inside what it stands for")
        if self.values > SIZE:
            raise YamlError(f"more than {SIZE:,} values, aliases written out")
        if isinstance(value, str):
            return _text(value)
        if isinstance(value, list):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {_key(key): self.copy(item, depth + 1) for key, item in value.items()}
        return value


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise YamlError(f"the key {shown(key)} is no text: write it in quotes")
    return _text(key)


def _text(text: str) -> str:
    """The text, with pairs of surrogates (which JSON writes as two escapes) as the character that they are."""
    if "\0" in text:
        raise YamlError(f"{shown(text)} holds a NUL character")
    if _SURROGATE.search(text) is None:
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise YamlError(f"{shown(text)} holds half of a surrogate pair, which is no character") from None
