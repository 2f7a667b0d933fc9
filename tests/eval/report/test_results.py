"""Holds that right answers of any diagnostic are shown in tables and figures, from the summary alone."""

import pytest

from remedy.eval.diagnostics.programs import ProgramsDiagnostic
from remedy.eval.records.schema import label
from remedy.eval.report.results import (
    accuracy_by_axis,
    accuracy_by_cost,
    axis_sections,
    by_trace_tokens,
    metric_sections,
    metric_table,
    said,
)
from remedy.eval.tables.sections import Published
from tests.eval.made_records import made, together

MOSTLY = [True] * 9 + [False]


def test_a_line_for_every_run_and_other_label_and_a_panel_for_every_forcing() -> None:
    conditions, _ = together(
        *(
            made(MOSTLY, run=run, labels={"length": length, "forcing": forcing, "spacing": spacing})
            for run in ("a", "b")
            for length in (4, 8, 32)
            for forcing in ("free", "action_forced")
            for spacing in (1.0, 4.0)
        )
    )
    figure = accuracy_by_axis(conditions, "length", {run: run for run in "ab"})
    assert [panel.get_title() for panel in figure.axes] == ["free", "action_forced"]
    for panel in figure.axes:
        assert [line.get_label() for line in panel.get_lines()] == [
            f"{run}, spacing {spacing}" for run in "ab" for spacing in (1, 4)
        ]
        assert all(list(line.get_xdata()) == [4, 8, 32] for line in panel.get_lines())
        assert all(set(line.get_ydata()) == {0.9} for line in panel.get_lines())
        assert [tick.get_text() for tick in panel.get_xticklabels()] == ["4", "8", "32"]
    drawn, in_numbers = axis_sections("Sorting", "length", conditions, {run: run for run in "ab"})
    assert drawn.title == "Sorting: right answers by length"
    assert in_numbers.rows is not None
    assert len(in_numbers.rows) == 1 + 8


def test_an_axis_is_explained_by_its_labels_meaning() -> None:
    label("altitude", "Metres above the sea.")
    conditions, _ = together(made(MOSTLY, labels={"altitude": 3}))
    assert said(conditions, "altitude").startswith("Altitude: Metres above the sea. All with ")


def test_metrics_of_conditions_stand_beside_published_ones_of_the_same_programs() -> None:
    conditions, _ = together(
        made(MOSTLY, labels={"benchmark": "cruxeval"}, diagnostic="programs", states=0, state_exact=0.0),
        made(
            [False, True],
            labels={"benchmark": "own"},
            diagnostic="programs",
            outcome=["network", "ok"],
            failure=["untraced", ""],
        ),
    )
    published = Published(
        "a paper", {"benchmark": "cruxeval", "forcing": "free"}, {"Answer right": "88.0%"}, "other code."
    )
    head, *rows = metric_table(conditions, [published])
    shown = [dict(zip(head, row)) for row in rows]
    assert [(row["Run"], row.get("Benchmark"), row["Answer right"].split("\n")[0]) for row in shown] == [
        ("run", "cruxeval", "90 %"),
        ("run", "own", "100 %"),
        ("a paper", "cruxeval", "88.0%"),
    ]
    assert shown[0]["State exact"] == ""  # no state was shown
    assert shown[1]["Examples"] == "1"
    (section,) = metric_sections("Programs", conditions)
    assert "Left out, since they could not be run: network 1." in section.note
    # It never stands there without a word on how it was made, and not beside other programs.
    (section,) = metric_sections("Programs", conditions, [published])
    assert section.note.endswith("a paper: other code.")
    assert len(metric_table(conditions[1:], [published])) == 2
    (section,) = metric_sections("Programs", conditions[1:], [published])
    assert "a paper" not in section.note


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


def test_every_run_has_its_points_by_cost() -> None:
    conditions, records = together(
        *(made(MOSTLY, run=run, labels={"length": n}, tokens_state=n) for run in "ab" for n in (4, 8))
    )
    (axis,) = accuracy_by_cost(conditions, {run: run for run in "ab"}).axes
    assert [list(line.get_xdata()) for line in axis.get_lines()] == [[19, 23], [19, 23]]
    assert by_trace_tokens(records, conditions) is not None


def test_answers_at_once_stand_where_the_traces_of_their_programs_do() -> None:
    conditions, records = together(
        made([True] * 4, tokens_state=[10, 10, 1000, 1000]),
        made([True, True, False, False], labels={"answer_only": True}, tokens_state=0),
    )
    figure = by_trace_tokens(records, conditions)
    assert figure is not None
    at_once = next(panel for panel in figure.axes if panel.get_title() == "answer_only")
    (line,) = at_once.get_lines()
    assert dict(zip(line.get_xdata(), line.get_ydata())) == {16: 1.0, 512: 0.0}
    assert by_trace_tokens(records[records["answer_only"]], conditions) is None
    assert line.get_ydata() == pytest.approx([1.0, 0.0])


def test_no_line_by_tokens_holds_several_conditions() -> None:
    """A program under two rewrites and two spacings is one example of each, not four of one line."""
    variants = {"a-0": "a", "a-1": "a", "b-0": "b"}
    conditions, records = together(
        *(
            made(MOSTLY, run=run, labels={"rewrite": rewrite, "spacing": spacing}, diagnostic="programs")
            for run in variants
            for rewrite in ("none", "all")
            for spacing in (1.0, 4.0)
        ),
        variants=variants,
    )
    figure = by_trace_tokens(records, conditions)
    assert figure is not None
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert {panel.get_title() for panel in panels} == {
        f"free\nrewrite {rewrite}, spacing {spacing}" for rewrite in ("none", "all") for spacing in (1, 4)
    }
    assert all([line.get_label() for line in panel.get_lines()] == ["a", "a", "b"] for panel in panels)
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["a", "b"]


def test_points_by_cost_have_intervals_a_panel_for_each_forcing_and_a_marker_for_each_diagnostic() -> None:
    conditions, _ = together(
        *(
            made(MOSTLY, run=run, diagnostic=diagnostic, labels={"forcing": forcing}, tokens_state=tokens)
            for run in ("a-0", "a-1")
            for diagnostic, tokens in (("permutation", 8), ("programs", 80))
            for forcing in ("free", "action_forced")
        )
    )
    figure = accuracy_by_cost(conditions, {"a-0": "a", "a-1": "a"})
    assert [panel.get_title() for panel in figure.axes] == ["free", "action_forced"]
    for panel in figure.axes:
        found = {(line.get_label(), line.get_marker()) for line in panel.get_lines()}
        assert found == {("a, permutation", "o"), ("a, programs", "s")}
        bars = [tuple(path.vertices[:, 1]) for drawn in panel.collections for path in drawn.get_paths()]
        assert len(bars) == 4
        assert all(low < 0.9 < high for low, high in bars)
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["a", "permutation", "programs"]
