"""What can be right without a model is computed from the true examples, and stands beside every accuracy."""

import math

import pytest
from matplotlib.axes import Axes

from remedy.eval.diagnostics.composition import expectation_table
from remedy.eval.diagnostics.two_by_two import cells_table, found_cells
from remedy.eval.records.baselines import NAMES, along, best
from remedy.eval.report.results import (
    accuracy_along,
    by_trace_tokens,
    held_out_section,
    right_table,
    single_step_section,
)
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
    head, *lines = right_table(conditions, records)
    assert {line[head.index("Without a model")] for line in lines} == {"50 %\nmost frequent answer"}
    (panel,) = accuracy_along(conditions, records, "horizon").axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in panel.get_lines()}
    assert drawn["most frequent answer"] == [0.5, 0.5]
    assert along((float(one["labels"]["horizon"]), one) for one in conditions)["start"] == {4.0: 0.25, 8.0: 0.25}


def drawn(panel: Axes) -> dict[str, list[tuple[float, float]]]:
    """What is drawn in grey, by its name in the legend."""
    lines = {str(line.get_label()): line for line in panel.get_lines()}
    return {name: list(zip(*lines[name].get_data())) for name in NAMES.values() if name in lines}


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
    sections = held_out_section("x", conditions, records, requests) + single_step_section("x", conditions, records)
    tables = [expectation_table(records), cells_table(found_cells(conditions[:1], records))]
    for head, row in [*tables, *(section.rows or [] for section in sections)]:
        assert dict(zip(head, row))["Without a model"] == said
    assert len(sections) == 2
