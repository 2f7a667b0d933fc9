"""Records: a file holds the columns of the schema and the labels of its condition."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from remedy.checksums import DamagedFile, read_table, write_table
from remedy.eval.records.schema import Record, rank, read_records, write_records
from tests.eval.made_records import COMMON


def row(**changes: Any) -> dict[str, Any]:
    blank = {
        "str": "",
        "int": 0,
        "int | None": 0,
        "float": 0.0,
        "bool": False,
        "float | None": None,
        "bool | None": None,
    }
    return {
        **{name: blank[str(kind.__forward_arg__)] for name, kind in Record.__annotations__.items() if name != "run"},
        **changes,
    }


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_records(tmp_path / "x.parquet", "run", [row(index=3)], {**COMMON, "length": 4}, "e")
    found = read_records(tmp_path / "x.parquet")
    assert found["index"].tolist() == [3]
    assert (found["run"].iloc[0], found["length"].iloc[0], found["spacing"].iloc[0]) == ("run", 4, 1.0)
    assert found["state_exact"].dtype == float


def test_columns_of_other_types_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_records(path, "run", [row()], COMMON, "e")
    table = read_table(path, "")
    older = table.drop_columns(["changed_states", "changed_states_right"])
    write_table(path, older, "e")
    assert "changed_states" not in read_records(path)
    for odd, says in (
        (table.drop_columns(["failure"]), "column 'failure' is missing, not string or large_string"),
        (table.append_column("label", pa.array([b"x"])), "column 'label' is binary, not string or "),
        (table.drop_columns(["states"]).append_column("states", pa.array([1.5])), "column 'states' is double, not int"),
    ):
        write_table(path, odd, "e")
        with pytest.raises(DamagedFile, match=f"x.parquet: is damaged .{says}"):
            read_records(path)


def test_values_are_ranked_as_declared_and_unknown_ones_last() -> None:
    found = sorted(["teacher_forced", "context+structure", "free"], key=lambda value: rank("forcing", value))
    assert found == ["free", "teacher_forced", "context+structure"]
