"""YAML text to plain data: sections, lists, texts, numbers, truth values and null.

Dates stay the text they are written as, keys that are no text are refused, and a key that is given twice is an error in place of the
last one winning.
"""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.constructor import ConstructorError

_DATE, _MERGE, _TEXT = (f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "str"))


class YamlError(ValueError):
    """Text that is no YAML, or holds what no setting can be; one line that says what and where."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without dates, that sees a key given twice."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> Any:
        node: Any = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            if key.tag != _TEXT:
                raise ConstructorError(None, None, "a key is no text: write it in quotes", key.start_mark)
            if key.value in seen:
                raise ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return node


def read(text: str) -> Any:
    """The data of a YAML text, without shared parts: what an alias stands for is copied, so that each can be changed by itself.

    Raises:
        YamlError: the text is no YAML, or holds what no setting can be.
    """
    try:
        return json.loads(json.dumps(yaml.load(text, _Loader)))
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except (ValueError, TypeError) as error:  # an alias inside what it stands for, a set
        raise YamlError(str(error)) from None
