"""Holds that failures are counted by class, operation and what moved them, whatever the diagnostic."""

from typing import Any

import pandas as pd

from remedy.eval.report import failures
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.failures import failure_sections, moved_sections
from remedy.eval.report.verdicts import compute_verdicts
from remedy.eval.tables.groups import grouped
from tests.eval.made_records import made, together

FAILED: dict[str, Any] = {
    "right": [True, False, False, False],
    "failure": ["", "wrong state", "wrong state", "truncated"],
    "value_type": ["", "str", "int", ""],
    "operation": ["", "string method", "loop or counter", ""],
    "first_error_role": ["", "state", "state", ""],
    "first_error_in_string": [False, True, False, False],
}


def tables(*parts: pd.DataFrame) -> dict[str, list[dict[str, str]]]:
    """The rows of each section on failures, by its title."""
    found = {}
    for section in failure_sections("Sorting", grouped(*together(*parts))):
        head, *rows = section.rows or []
        found[section.title.removeprefix("Sorting: ")] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


def test_classes_operations_and_first_errors_are_counted_for_a_diagnostic_of_any_name() -> None:
    found = tables(*(made(**FAILED, diagnostic="sorting", labels={"length": length}) for length in (4, 8)))
    assert list(found) == ["failure classes", "failures by operation", "first errors by role"]
    about = {"Recipe": "run", "Length": "8", "Examples": "4"}
    classes = {"Right": "1", "Truncated": "1", "Wrong state": "2", "Wrong states by type": "str 1, int 1"}
    assert found["failure classes"][1] == {**about, **classes}
    assert found["failures by operation"][1] == {**about, "Loop or counter": "1", "String method": "1"}
    inside = [row for row in found["first errors by role"] if row["Role"] == failures.IN_STRING]
    assert [(row["Condition"], row["First errors"]) for row in inside] == [
        (f"length {length}, forcing free", "1") for length in (4, 8)
    ]


def test_what_moved_which_failures() -> None:
    after = {**FAILED, "right": [False, True, True, False], "failure": ["runaway", "", "", "truncated"]}
    _, records = together(made(**FAILED, run="a"), made(**after, run="b"))
    verdicts = compute_verdicts([Comparison(mitigation="m", baseline=Side(run="a"), treatment=Side(run="b"))], records)
    (section,) = moved_sections(verdicts)
    assert (section.rows or [])[1:] == [
        ["m", "truncated", "1", "0\n0%", "1"],
        ["m", "wrong state", "2", "2\n100%", "0"],
        ["m", "right", "1", "0\n0%", ""],
    ]
