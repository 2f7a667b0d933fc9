"""Holds that failures are counted by class, operation and what moved them, whatever the diagnostic."""

import pandas as pd
import pytest

from remedy.eval.report import failures
from remedy.eval.report.failures import (
    bars,
    class_counts,
    failure_sections,
    hazard_table,
    mixed,
    moved_classes,
    operation_counts,
)
from remedy.eval.report.verdicts import Comparison, Side
from remedy.eval.tables.sections import telling, text, title
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
    conditions, _ = together(failed(labels={"length": 4}), failed(labels={"length": 8}))
    head, *rows = class_counts(conditions)
    assert head == ["Run", "Length", "Examples", "Right", "Truncated", "Wrong state", "Wrong states by type"]
    assert rows[1] == ["run", "8", "4", "1", "1", "2", "str 1, int 1"]
    head, *rows = operation_counts(conditions)
    found = {tuple(row[1:3]): dict(zip(head[3:], row[3:])) for row in rows}
    assert len(found) == 4
    assert found["4", "wrong state: str"]["String method"] == "1"
    assert found["8", "wrong state: int"]["Loop or counter"] == "1"
    head, *rows = hazard_table(conditions)
    assert [row[:4] for row in rows if row[2] == failures.IN_STRING] == [
        ["run", length, failures.IN_STRING, "1"] for length in ("4", "8")
    ]
    assert [section.title for section in failure_sections("Sorting", conditions)] == [
        "Sorting: failure classes",
        "Sorting: failure classes, examples",
        "Sorting: failures by operation",
        "Sorting: where the first error stands",
        "Sorting: rates of first errors",
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
    conditions, _ = together(*parts)
    head, *rows = hazard_table(conditions)
    lines = [dict(zip(head, row)) for row in rows]
    found = {
        (one["Format"], one["Forcing"]): one["After another occurrence"] for one in lines if one["Role"] == "action"
    }
    assert found == {("cwm", "free"): "3", ("cwm_numbered", "free"): "1", ("cwm", "state_forced"): "2"}
    assert {one["After another occurrence"] for one in lines if one["Role"] != "action"} == {""}


def test_nothing_is_said_where_nothing_failed() -> None:
    conditions, records = together(made([True] * 3))
    assert failure_sections("Sorting", conditions) == []
    assert len(moved_classes([], records)) == 1


@pytest.mark.parametrize("label", ["spacing", "locals", "string_encoding", "benchmark"])
def test_no_count_mixes_conditions(label: str) -> None:
    """What is counted under one condition stays as it is, whatever is counted beside it."""
    values: dict[str, tuple[object, object]] = {"spacing": (1.0, 4.0), "locals": ("full", "diff")}
    first, second = values.get(label, ("plain", "spaced"))
    parts = failed(labels={label: first}), failed(labels={label: second}, operation="loop or counter")
    conditions, _ = together(*parts)
    for count in (class_counts, operation_counts, hazard_table):
        head, *both = count(conditions)
        place = head.index(title(label))
        for number, condition in enumerate(conditions):
            mine = [row[:place] + row[place + 1 :] for row in both if row[place] == text((first, second)[number])]  # type: ignore[arg-type]
            assert mine == count([condition])[1:]


def test_many_bars_are_put_together_by_the_label_with_the_most_values() -> None:
    conditions, _ = together(
        *(failed(labels={"length": n, "forcing": f}) for n in range(1, 21) for f in ("free", "action_forced"))
    )
    assert telling(conditions) == ["length", "forcing"]
    assert {name: len(group) for name, group in bars(conditions, telling(conditions)).items()} == {
        "run, forcing free": 20,
        "run, forcing action_forced": 20,
    }
    assert mixed(conditions) == "A bar holds conditions that differ in length; the tables hold each by itself."
    assert mixed(conditions[:3]) == ""
    figure = failures.failure_classes(conditions)
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == [0.25] * 2 + [0.25] * 2 + [0.5] * 2  # right, truncated, wrong state


@pytest.mark.parametrize("label", ["forcing", "answer_only"])
def test_no_bar_holds_several_forcings_however_many_there_are(label: str) -> None:
    values: tuple[object, object] = ("free", "action_forced") if label == "forcing" else (False, True)
    conditions, _ = together(
        *(
            failed(run=f"run-{number}", labels={"length": length, label: value})
            for number in range(24)
            for length in (4, 8)
            for value in values
        )
    )
    groups = bars(conditions, telling(conditions))
    assert len(groups) == 48
    assert all(len({one["labels"][label] for one in group}) == 1 for group in groups.values())
    assert mixed(conditions) == "A bar holds conditions that differ in length; the tables hold each by itself."


def test_what_moved_which_failures() -> None:
    after = {**FAILED, "right": [False, True, True, False], "failure": ["runaway", "", "", "truncated"]}
    _, records = together(failed(run="a"), made(run="b", diagnostic="sorting", **after))  # type: ignore[arg-type]
    comparison = Comparison(mitigation="m", baseline=Side(run="a"), treatment=Side(run="b"))
    table = {row[0]: row for row in moved_classes([comparison], records)}
    assert table["wrong state"][2] == "2"
    assert table["wrong state"][3].startswith("2\n100 %")
    assert table["wrong state"][4] == "0"
    assert table["truncated"][2:] == ["1", table["truncated"][3], "1"]
    assert table["all failures"][2] == "3"
    assert table["none (right before)"][4] == "lost 1: runaway 1"
