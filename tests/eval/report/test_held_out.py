"""Holds that a report sets programs of held-out functions and depths apart from those that a run was trained on."""

from typing import Any

from remedy.eval.report.held_out import held_out_section, held_out_table
from tests.eval.made_records import made, together

TASK = {"held_out_functions": ["new"], "held_out_depths": [2]}


def request(run: str = "run", **task: Any) -> dict[str, Any]:
    return {"run": run, "trained_on": {"kind": "composition", **task}}


def test_held_out_functions_and_depths_stand_apart() -> None:
    single = [
        made(
            [right] * 5,
            diagnostic="composition",
            labels={"depth": 1, "function": name},
            functions=name,
            example=[f"{name} {place}" for place in (0, 0, 1, 2, 3)],
        )
        for name, right in (("old", True), ("older", False), ("new", True))
    ]
    nested = made(
        [True, False, False, False],
        diagnostic="composition",
        labels={"depth": 2, "function": ""},
        functions=["old older", "older old", "old new", "new new"],
    )
    conditions, records = together(*single, nested)
    head, *rows = held_out_table(conditions, records, [request(**TASK)])
    assert head == ["Run", "Depth", "Depth held out", "Of trained functions", "With one held out", "Without a model"]
    assert [[cell.split("\n")[0] for cell in row[:-1]] for row in rows] == [
        ["run", "1", "no", "50 %", "100 %"],
        ["run", "2", "yes", "50 %", "0 %"],
    ]
    assert [row[3].split("\n")[2:] for row in rows] == [["of 10", "8 programs"], ["of 2"]]
    (section,) = held_out_section("Composed functions", conditions, records, [request(**TASK)])
    assert section.title == "Composed functions: held out from training"


def test_nothing_is_said_where_nothing_was_held_out() -> None:
    conditions, records = together(made([True], functions="old"), made([True], run="other", functions=""))
    for requests in ([], [request()], [{"run": "run", "trained_on": None}], [request("other", **TASK)]):
        assert held_out_section("Composed functions", conditions, records, requests) == []
