"""Holds that failures are counted by class, operation and what moved them, whatever the diagnostic."""

import pandas as pd

from remedy.eval.report import failures
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.failures import (
    class_table,
    failure_sections,
    hazard_table,
    moved_table,
    operation_table,
)
from remedy.eval.tables.sections import Section, grouped
from tests.eval.made_records import made, together

FAILED = {
    "right": [True, False, False, False],
    "failure": ["", "wrong state", "wrong state", "truncated"],
    "value_type": ["", "str", "int", ""],
    "operation": ["", "string method", "loop or counter", ""],
    "first_error_role": ["", "state", "state", ""],
    "first_error_in_string": [False, True, False, False],
}


def failed(**changes: object) -> pd.DataFrame:
    return made(**{"diagnostic": "sorting", **FAILED, **changes})  # type: ignore[arg-type]


def test_classes_types_and_operations_are_counted_for_a_diagnostic_of_any_name() -> None:
    conditions, records = together(failed(labels={"length": 4}), failed(labels={"length": 8}))
    groups = grouped(conditions, records)
    head, *rows = class_table(groups)
    assert head == ["Recipe", "Length", "Examples", "Right", "Truncated", "Wrong state", "Wrong states by type"]
    assert rows[1] == ["run", "8", "4", "1", "1", "2", "str 1, int 1"]
    head, *rows = operation_table(groups)
    found = {tuple(row[1:3]): dict(zip(head[3:], row[3:])) for row in rows}
    assert len(found) == 4
    assert found["length 4", "wrong state: str"]["String method"] == "1"
    assert found["length 8", "wrong state: int"]["Loop or counter"] == "1"
    head, *rows = hazard_table(groups)
    assert [row[:4] for row in rows if row[2] == failures.IN_STRING] == [
        ["run", f"length {length}", failures.IN_STRING, "1"] for length in (4, 8)
    ]
    assert [section.title for section in failure_sections("Sorting", conditions, records)] == [
        "Sorting: failure classes",
        "Sorting: failures by operation",
        "Sorting: first errors by role",
    ]


def test_actions_that_follow_another_occurrence_are_counted_for_each_condition() -> None:
    """Formats that number their lines are for this count, which a sum over formats or forcings would hide."""
    wrong = {"right": [False] * 4, "first_error_role": ["action"] * 4}
    parts = [
        made(
            **wrong,
            labels={"format": kind, "forcing": forcing},
            followed_another=[True] * count + [False] * (4 - count),
        )  # type: ignore[arg-type]
        for kind, forcing, count in (("cwm", "free", 3), ("cwm_numbered", "free", 1), ("cwm", "state_forced", 2))
    ]
    conditions, records = together(*parts)
    head, *rows = hazard_table(grouped(conditions, records))
    lines = [dict(zip(head, row)) for row in rows]
    found = {one["Condition"]: one["After another occurrence"] for one in lines if one["Role"] == "action"}
    kinds = ("format cwm", "format cwm_numbered", "format cwm"), ("free", "free", "state_forced"), "312"
    assert found == {f"{kind}, forcing {forcing}": count for kind, forcing, count in zip(*kinds)}


def test_nothing_is_said_where_nothing_failed() -> None:
    conditions, records = together(made([True] * 3))
    assert failure_sections("Sorting", conditions, records) == []
    assert len(moved_table([], records)) == 1


def test_what_moved_which_failures() -> None:
    after = {**FAILED, "right": [False, True, True, False], "failure": ["runaway", "", "", "truncated"]}
    _, records = together(failed(run="a"), made(run="b", diagnostic="sorting", **after))  # type: ignore[arg-type]
    comparison = Comparison(mitigation="m", baseline=Side(run="a"), treatment=Side(run="b"))
    table = {row[0]: row for row in moved_table([comparison], records)}
    assert table["wrong state"][2] == "2"
    assert table["wrong state"][3].startswith("2\n100 %")
    assert table["wrong state"][4] == "0"
    assert table["truncated"][2:] == ["1", table["truncated"][3], "1"]
    assert table["all failures"][2] == "3"
    assert table["none (right before)"][4] == "lost 1: runaway 1"


def section(title: str, *parts: pd.DataFrame) -> Section:
    return next(one for one in failure_sections("Programs", *together(*parts)) if one.title == f"Programs: {title}")


def test_what_was_certain_and_what_was_cut_is_shown_of_constrained_conditions_alone() -> None:
    held = {"written_tokens": 60, "certain_tokens": 40, "masked_tokens": 10, "cut_mass": 2.0, "changed_tokens": 3}
    parts = made([True] * 4), made([True] * 4, labels={"forcing": "control_flow"}, **held)  # type: ignore[arg-type]
    rows = section("what constraints cut", *parts).rows
    assert rows is not None
    head, row = rows
    assert head == ["Run", "Condition", "Written", "Certain", "Choices", "Cut", "Changed"]
    shown = ["run", "forcing control_flow", "240", "40 %", "40", "20 %", "5 %"]
    assert [cell.split("\n")[0] for cell in row] == shown


def test_wrong_actions_are_told_apart() -> None:
    errors = {"first_error_role": "action", "first_error_frame": 2, "frames_right": 1}
    kinds = ["outside the control flow", *["allowed by the control flow"] * 2, "against the written state", ""]
    rows = section("wrong actions by control flow", made([False] * 5, wrong_action=kinds, **errors)).rows  # type: ignore[arg-type]
    assert rows == [
        ["Recipe", "Examples", "Outside the control flow", "Allowed by the control flow", "Against the written state"],
        ["run", "5", "1", "2", "1"],
    ]
