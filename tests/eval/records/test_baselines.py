"""What can be right without a model is computed from the true examples, and stands beside every accuracy."""

import math

import pytest

from remedy.eval.diagnostics.composition import expectation_table
from remedy.eval.diagnostics.two_by_two import cells_table, found_cells
from remedy.eval.records.baselines import along, best
from remedy.eval.report.groups import grouped
from remedy.eval.report.results import curves, held_out_table, right_table
from tests.eval.made_records import made, together

ANSWERS = {"chance": 1 / 3, "start_right": [1.0, 0.0, 0.0, 0.0], "true_answer": ["x", "y", "x", "z"]}
RIGHT = [True, True, False, False]


def test_they_are_shares_of_the_true_examples() -> None:
    conditions, _ = together(made(RIGHT, **ANSWERS), made(RIGHT, labels={"forcing": "action_forced"}))
    first, second = conditions
    assert first["baselines"] == {"chance": pytest.approx(1 / 3), "start": 0.25, "majority": 0.5}
    assert second["baselines"] == {"chance": None, "start": None, "majority": None}
    assert best([first]) == "50 %\nmost frequent answer"
    assert best([second]) == ""
    nothing, _ = together(made(RIGHT, **{**ANSWERS, "start_right": [1.0, math.nan, 0.0, 0.0]}))
    assert nothing[0]["baselines"]["start"] is None


def test_they_stand_in_every_table_and_figure_of_accuracy() -> None:
    parts = [made(RIGHT, run=run, labels={"horizon": n}, **ANSWERS) for run in ("a-0", "a-1") for n in (4, 8)]
    conditions, records = together(*parts, variants={"a-0": "a", "a-1": "a"})
    groups = grouped(conditions, records)
    head, *lines = right_table(groups)
    assert {line[head.index("Without a model")] for line in lines} == {"50 %\nmost frequent answer"}
    figure = curves(groups, "horizon")
    assert figure is not None
    (panel,) = figure.axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in panel.get_lines()}
    assert drawn["most frequent answer"] == [0.5, 0.5]
    assert along((float(one["labels"]["horizon"]), one) for one in conditions)["start"] == {4.0: 0.25, 8.0: 0.25}


def test_they_stand_in_the_tables_of_diagnostics_and_of_held_out_programs() -> None:
    said = "50 %\nmost frequent answer"
    labels = {"family": "strings", "form": "nested", "depth": 2, "function": ""}
    conditions, records = together(
        made(RIGHT, labels=labels, functions="old new", **ANSWERS),
        made(RIGHT, labels={**labels, "forcing": "teacher_forced"}, **ANSWERS)
        .assign(right=None)
        .astype({"right": "boolean"}),
    )
    requests = [{"run": "run", "trained_on": {"held_out_functions": ["new"]}}]
    held_out = held_out_table([group for group in grouped(conditions, records) if group.scored], requests)
    for head, row in [expectation_table(records), cells_table(found_cells(conditions[:1], records)), held_out]:
        assert dict(zip(head, row))["Without a model"] == said
