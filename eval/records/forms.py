"""Checks of column types in an evaluation's tables."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from remedy.checksums import check_columns, damage_named
from remedy.data_gen.traces.kinds import KINDS

_TYPES = {"str": "string|large_string", "int": "int64", "float": "double|int64", "bool": "bool"}
SCALAR = "|".join(_TYPES.values())
"""Types of labels."""
_SINCE = {"held_out_pairs", *(name + end for names in KINDS.values() for name in names for end in ("", "_right"))}
"""Columns that older records lack."""


def check_rows(path: Path, cure: str, table: pa.Table, row: type, others: str = ".*") -> pa.Table:
    """Return a table whose columns have the types of a row's fields.

    Other columns must have the types `others`.

    Raises:
        DamagedFile: a column is missing or has another type.
    """
    forms = {}
    for name, kind in row.__annotations__.items():
        is_list, word = re.findall(r"(list)?\W?(\w+)", kind.__forward_arg__)[0]
        forms[name] = f"list<element: ({_TYPES[word]}|null)>" if is_list else _TYPES[word]
        forms[name] += "|missing" if name in _SINCE else ""
    with damage_named(path, cure):
        check_columns(table.schema, forms, others)
    return table
