"""What can be right without a model is computed from the true examples, and stands beside every accuracy."""

import math

import pytest
from matplotlib.axes import Axes

from remedy.eval.diagnostics.composition import expectation_table
from remedy.eval.diagnostics.two_by_two import cells_table, found_cells
from remedy.eval.records.baselines import NAMES, along, best, of, said
from remedy.eval.report.held_out import held_out_table
from remedy.eval.report.one_step import compound_figure, compound_table, compounded
from remedy.eval.report.results import accuracy_by_axis, accuracy_by_cost, by_trace_tokens, metric_table
from remedy.eval.report.seeds import seed_table
from remedy.eval.tables.sections import rate_table
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
    (panel,) = accuracy_by_axis(conditions, "horizon", {"a-0": "a", "a-1": "a"}).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in panel.get_lines()}
    assert drawn["most frequent answer"] == [0.5, 0.5]
    assert along(conditions, "horizon")["start"] == {4.0: 0.25, 8.0: 0.25}


def drawn(panel: Axes) -> dict[str, list[tuple[float, float]]]:
    """What is drawn in grey, by its name in the legend."""
    lines = {str(line.get_label()): line for line in panel.get_lines()}
    return {name: list(zip(*lines[name].get_data())) for name in NAMES.values() if name in lines}


def test_they_are_marked_where_right_answers_stand_by_cost() -> None:
    conditions, _ = together(made(RIGHT, labels={"horizon": 4}, **ANSWERS), made(RIGHT, labels={"horizon": 8}))
    (panel,) = accuracy_by_cost(conditions, {"run": "run"}).axes
    assert drawn(panel) == {
        "chance": [(23, pytest.approx(1 / 3))],
        "answering with the start": [(23, 0.25)],
        "most frequent answer": [(23, 0.5)],
    }


def test_they_are_drawn_by_the_tokens_of_traces_and_few_programs_have_no_answer_of_their_own() -> None:
    conditions, records = together(*(made(RIGHT, run=run, tokens_state=[10, 10, 10, 1000], **ANSWERS) for run in "ab"))
    figure = by_trace_tokens(records, conditions)
    assert figure is not None
    found = drawn(figure.axes[0])
    assert found["answering with the start"] == [(16, pytest.approx(1 / 3)), (512, 0)]
    assert found["most frequent answer"] == [(16, pytest.approx(2 / 3)), (512, 0)]
    assert [share for _, share in found["chance"]] == pytest.approx([1 / 3, 1 / 3])
    conditions, without = together(made(RIGHT, tokens_state=[10, 10, 10, 1000]))
    figure = by_trace_tokens(without, conditions)
    assert figure is not None
    assert drawn(figure.axes[0]) == {}


def test_they_stand_in_the_tables_of_diagnostics_and_of_single_steps() -> None:
    said = "50 %\nmost frequent answer"
    labels = {"family": "strings", "form": "nested", "depth": 2, "function": ""}
    conditions, records = together(
        made(RIGHT, labels=labels, functions="old new", **ANSWERS),
        made(RIGHT, labels={**labels, "forcing": "teacher_forced"}, **ANSWERS)
        .assign(right=None)
        .astype({"right": "boolean"}),
    )
    requests = [{"run": "run", "trained_on": {"held_out_functions": ["new"]}}]
    compounds = compounded(conditions, records)
    tables = [
        expectation_table(records),
        held_out_table(conditions, records, requests),
        compound_table(compounds),
        cells_table(found_cells(conditions[:1], records)),
    ]
    for head, row in tables:
        assert dict(zip(head, row))["Without a model"] == said
    (panel,) = compound_figure(compounds, "depth", {"run": "run"}).axes
    assert drawn(panel)["most frequent answer"] == [(2, 0.5)]
