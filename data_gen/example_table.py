"""Tables of examples, a row each, as in shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from remedy.checksums import check_columns
from remedy.data_gen.examples import Example
from remedy.data_gen.roles import Role
from remedy.data_gen.tasks.task import TokenArrays
from remedy.settings import UserError

_TEXT, _BOOLEAN, _NUMBER = pa.string(), pa.bool_(), pa.int64()
_TYPES = {
    "index": _NUMBER,
    **dict.fromkeys(("outcome", "program", "answer"), _TEXT),
    "input_ids": pa.list_(pa.int32()),
    "roles": pa.list_(pa.int8()),
    "frames": pa.list_(pa.int32()),
    "strings": pa.list_(_BOOLEAN),
}
_PARALLEL = ("input_ids", "roles", "frames", "strings")
_MOST_OF_ROW, _MOST = 1 << 24, 1 << 32
"""Unpacked bytes of a row and of a table, at most."""


def check_footer(about: pq.FileMetaData, rows: int) -> None:
    """Check the footer of a table of `rows` examples.

    Raises:
        ValueError: it has other rows or columns, or would be too large.
    """
    if about.num_rows != rows:
        raise ValueError(f"it has {about.num_rows} rows, not {rows}")
    forms = {name: str(kind).replace("item: ", "element: ") for name, kind in _TYPES.items()}
    check_columns(about.schema.to_arrow_schema(), forms, f"{_TEXT}|{_NUMBER}")
    # A damaged or hostile file could claim any size: it is refused before it is read.
    leaves = [
        about.row_group(group).column(i) for group in range(about.num_row_groups) for i in range(about.num_columns)
    ]
    size = sum(leaf.total_uncompressed_size + 8 * leaf.num_values for leaf in leaves)
    if size > min(rows * _MOST_OF_ROW, _MOST):
        raise ValueError(f"it would take {size:,} bytes, too many for {rows} examples")


def check_tokens(table: pa.Table) -> None:
    """Check a table's columns of tokens.

    Raises:
        ValueError: a value is null, a role is unknown, or an example's lists differ in length.
    """
    lists = {name: table[name].combine_chunks() for name in _PARALLEL if name in table.column_names}
    for name, column in lists.items():
        if column.null_count or column.flatten().null_count:
            raise ValueError(f"column {name!r} has nulls")
        if not pc.list_value_length(column).equals(pc.list_value_length(lists["input_ids"])):
            raise ValueError(f"column {name!r} has not as many values as 'input_ids'")
    if "roles" in lists and not {*lists["roles"].flatten().unique().to_pylist()} <= {*Role}:
        raise ValueError("column 'roles' has unknown roles")


def table_of(examples: Iterable[tuple[Example, Any]]) -> pa.Table:
    """Make a table of examples with their tokens; slices are columns."""
    rows = [_row(example, tokens) for example, tokens in examples]
    types = {key: _TYPES.get(key) or (_TEXT if isinstance(value, str) else _NUMBER) for key, value in rows[0].items()}
    return pa.Table.from_pylist(rows, schema=pa.schema(types))


def table_of_arrays(arrays: TokenArrays, indices: Sequence[int]) -> pa.Table:
    """Make the same table from arrays of tokens."""
    width = arrays.ids.shape[1]
    padded = (arrays.lengths < width).any()
    inside = np.arange(width) < arrays.lengths[:, None] if padded else ...  # all, which is faster than a mask
    ends = pa.array(np.concatenate([[0], np.cumsum(arrays.lengths)]), pa.int32())
    tokens = {
        "input_ids": pa.array(arrays.ids[inside].ravel(), pa.int32()),
        "roles": pa.array(arrays.roles[inside].ravel()),
        "frames": pa.array(arrays.frames[inside].ravel()),
        "strings": pa.array(np.zeros(ends[-1].as_py(), np.bool_)),  # no symbol is a string's text
    }
    programs, answers, slices = arrays.about()
    columns = {
        "index": list(indices),
        "outcome": ["ok"] * len(indices),
        "program": programs,
        "answer": answers,
        **{name: pa.ListArray.from_arrays(ends, column) for name, column in tokens.items()},
        **slices,
    }
    return pa.table(columns)


def _row(example: Example, tokens: Any) -> dict[str, Any]:
    if taken := sorted(example.slices.keys() & _TYPES.keys()):
        raise UserError(f"the task's slice {taken[0]!r} has the name of a column of data sets: rename it in the task")
    return {
        "index": example.index,
        "outcome": example.outcome,
        "program": example.program,
        "answer": example.answer,
        "input_ids": tokens.ids,
        "roles": tokens.roles,
        "frames": tokens.frames,
        "strings": tokens.strings,
        **example.slices,
    }
