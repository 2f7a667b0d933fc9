"""Right answers of any diagnostic in one table and in figures: seeds together, published figures beside, held-out programs apart."""

from typing import Any

import pytest

from remedy.eval.diagnostics.programs import ProgramsDiagnostic
from remedy.eval.report.results import (
    accuracy_along,
    held_out_section,
    result_sections,
    right_table,
)
from remedy.eval.tables.sections import Published
from tests.eval.made_records import made, together

MOSTLY = [True] * 9 + [False]
VARIANTS = {"a-0": "a", "a-1": "a", "b-0": "b"}
SHARES = {"a-0": 0.5, "a-1": 0.75, "b-0": 0.25}
CONDITIONS, RECORDS = together(
    *(
        made([True] * int(80 * share) + [False] * int(80 - 80 * share), run=run, labels={"length": length})
        for run, share in SHARES.items()
        for length in (4, 8)
    ),
    variants=VARIANTS,
)


def test_a_row_for_every_recipe_and_condition() -> None:
    head, *rows = right_table(CONDITIONS, RECORDS)
    assert head[:4] == ["Recipe", "Length", "Right", "Each seed"]
    assert [row[:2] for row in rows] == [["a", "4"], ["a", "8"], ["b", "4"], ["b", "8"]]
    shown = [dict(zip(head, row, strict=True)) for row in rows]
    assert (shown[0]["Right"], shown[0]["Each seed"]) == ("62 %\n0 to 100 %", "50, 75 %")
    assert (shown[2]["Right"], shown[2]["Each seed"]) == ("25 %\n17 to 35 %", "")
    assert [one["Solved"] for one in shown[::2]] == ["0 of 2\n0 to 84 % of all", "0 of 1\n0 to 98 % of all"]
    assert {one["Tokens"] for one in shown} == {"23"}


def test_a_line_for_every_recipe_and_other_label_and_a_panel_for_every_forcing() -> None:
    conditions, records = together(
        *(
            made(MOSTLY, run=run, labels={"length": length, "forcing": forcing, "spacing": spacing})
            for run in ("a", "b")
            for length in (4, 8, 32)
            for forcing in ("free", "action_forced")
            for spacing in (1.0, 4.0)
        )
    )
    figure = accuracy_along(conditions, records, "length")
    assert [panel.get_title() for panel in figure.axes] == ["written freely", "actions given"]
    for panel in figure.axes:
        assert [line.get_label() for line in panel.get_lines()] == [
            f"{run}, spacing {spacing}" for run in "ab" for spacing in (1, 4)
        ]
        assert all(list(line.get_xdata()) == [4, 8, 32] for line in panel.get_lines())
        assert all(set(line.get_ydata()) == {0.9} for line in panel.get_lines())
        assert (panel.get_xlabel(), [tick.get_text() for tick in panel.get_xticklabels()]) == (
            "commands",
            ["4", "8", "32"],
        )
    drawn, in_numbers = result_sections("Sorting", "length", conditions, records)
    assert (drawn.title, in_numbers.title) == ("Sorting: right answers by length", "Sorting: right answers")
    assert drawn.note.startswith("Length: Commands of a permutation program. ")


def test_seeds_are_small_dots_beside_their_mean() -> None:
    (panel,) = accuracy_along(CONDITIONS, RECORDS, "length").axes
    lines = {str(line.get_label()): list(line.get_ydata()) for line in panel.get_lines()}
    assert lines == {"a": pytest.approx([0.625, 0.625]), "b": pytest.approx([0.25, 0.25])}
    dots = [tuple(dot) for part in panel.collections for dot in part.get_offsets()]
    assert set(dots) >= {(4, 0.5), (4, 0.75), (8, 0.5), (8, 0.75)}


def test_metrics_of_conditions_stand_beside_published_ones_of_the_same_programs() -> None:
    conditions, records = together(
        made(MOSTLY, labels={"benchmark": "cruxeval"}, diagnostic="programs", states=0, state_exact=0.0),
        made(
            [False, True],
            labels={"benchmark": "own"},
            diagnostic="programs",
            outcome=["network", "ok"],
            failure=["untraced", ""],
        ),
    )
    records = records[records["failure"] != "untraced"]
    published = Published(
        "a paper", {"benchmark": "cruxeval", "forcing": "free"}, {"Answer right": "88.0%"}, "other code."
    )
    head, *rows = right_table(conditions, records, [published])
    shown = [dict(zip(head, row)) for row in rows]
    assert [(row["Recipe"], row["Benchmark"], row["Right"].split("\n")[0]) for row in shown] == [
        ("run", "cruxeval", "90 %"),
        ("run", "own", "100 %"),
        ("a paper", "cruxeval", "88.0%"),
    ]
    assert shown[0]["States"] == ""  # no state was shown
    assert shown[1]["Examples"] == "1"
    # It never stands there without a word on how it was made, and not beside other programs.
    (table,) = result_sections("Programs", None, conditions, records, [published])
    assert "a paper: other code. Left out, since they could not be run: network 1." in table.note
    own = records[records["benchmark"] == "own"]
    (table,) = result_sections("Programs", None, conditions[1:], own, [published])
    assert "a paper" not in table.note
    assert len(table.rows or []) == 2


def test_published_figures_stand_beside_traces_that_are_written_alike_only() -> None:
    alike = {"benchmark": "cruxeval", "rewrite": "none", "locals": "diff"}
    changes: tuple[dict[str, object], ...] = (
        {},
        {"locals": "full"},
        {"spacing": 4.0},
        {"format": "repl"},
        {"forcing": "action_forced"},
        {"benchmark": "humaneval"},
    )
    for change in changes:
        conditions, _ = together(made(MOSTLY, labels={**alike, **change}, diagnostic="programs"))
        assert [one.beside(conditions) for one in ProgramsDiagnostic.published] == [not change]


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
    (section,) = held_out_section("Composed functions", conditions, records, [request(**TASK)])
    assert section.title == "Composed functions: held out from training"
    head, *rows = section.rows or []
    assert head == ["Run", "Depth", "Depth held out", "Of trained functions", "With one held out", "Without a model"]
    assert [[cell.split("\n")[0] for cell in row[:-1]] for row in rows] == [
        ["run", "1", "no", "50 %", "100 %"],
        ["run", "2", "yes", "50 %", "0 %"],
    ]
    assert [row[3].split("\n")[2:] for row in rows] == [["of 10", "8 programs"], ["of 2"]]
