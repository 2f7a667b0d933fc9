"""What can be right without a model is computed from the true examples, and stands beside every accuracy."""

import math

import pytest

from remedy.eval.baselines import along, best, of, said
from remedy.eval.report.results import accuracy_by_axis, metric_table
from remedy.eval.report.seeds import seed_table
from remedy.eval.sections import rate_table
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
    assert of([second]) == {}
    assert said([1 / 3, 0.5]) == "33 to 50 %"
    nothing, _ = together(made(RIGHT, **{**ANSWERS, "start_right": [1.0, math.nan, 0.0, 0.0]}))
    assert nothing[0]["baselines"]["start"] is None


def test_they_stand_in_every_table_and_figure_of_accuracy() -> None:
    parts = [made(RIGHT, run=run, labels={"horizon": n}, **ANSWERS) for run in ("a-0", "a-1") for n in (4, 8)]
    conditions, records = together(*parts)
    rows = rate_table(conditions, "horizon")
    assert rows[3:] == [
        ["chance", "33 %", "33 %"],
        ["answering with the start", "25 %", "25 %"],
        ["most frequent answer", "50 %", "50 %"],
    ]
    assert all(row[-1] == "50 %\nmost frequent answer" for row in rate_table(conditions, "run")[1:])
    head, *lines = metric_table(conditions)
    assert {line[head.index("Without a model")] for line in lines} == {"50 %\nmost frequent answer"}
    head, *lines = seed_table(conditions, records, {"a-0": "a", "a-1": "a"})
    assert {line[head.index("Without a model")] for line in lines} == {"50 %\nmost frequent answer"}
    (panel,) = accuracy_by_axis(conditions, "horizon").axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in panel.get_lines()}
    assert drawn["most frequent answer"] == [0.5, 0.5]
    assert along(conditions, "horizon")["start"] == {4.0: 0.25, 8.0: 0.25}
