"""Holds that the runs of a variant are put together: their mean with its interval, each run's rate, and how many solve the task."""

import pytest

from remedy.eval.report.seeds import accuracy_over_seeds, repeated, seed_sections, seed_table
from tests.eval.made_records import made, together

VARIANTS = {"a-0": "a", "a-1": "a", "b-0": "b"}
SHARES = {"a-0": 0.5, "a-1": 0.75, "b-0": 0.25}
CONDITIONS, RECORDS = together(
    *(
        made([True] * int(80 * share) + [False] * int(80 - 80 * share), run=run, labels={"length": length})
        for run, share in SHARES.items()
        for length in (4, 8)
    )
)


def test_a_variant_of_several_runs_repeats() -> None:
    assert repeated(VARIANTS)
    assert not repeated({"a-0": "a", "b-0": "b"})
    assert not repeated({})


def test_a_line_for_every_variant_and_condition() -> None:
    head, *rows = seed_table(CONDITIONS, RECORDS, VARIANTS)
    assert head == [
        "Variant",
        "Length",
        "Seeds",
        "Right",
        "Each seed",
        "Standard deviation",
        "Solved",
        "Without a model",
        "Tokens",
    ]
    assert [row[:3] for row in rows] == [["a", "4", "2"], ["a", "8", "2"], ["b", "4", "1"], ["b", "8", "1"]]
    assert rows[0][3:] == ["62 %\n0 to 100 %", "50, 75 %", "18 points", "0 of 2\n0 to 84 %", "", "23"]
    assert rows[2][3:] == ["25 %\n17 to 35 %", "25 %", "", "0 of 1\n0 to 98 %", "", "23"]


def test_three_seeds_that_solve_it_leave_the_share_that_does_open() -> None:
    found = together(*(made([True] * 100, run=f"r{n}") for n in range(3)))
    (_, row) = seed_table(*found, {f"r{n}": "v" for n in range(3)})
    rate = "100 %\n97 to 100 %\nceiling: all right"
    assert row == ["v", "3", rate, "100, 100, 100 %", "0 points", "3 of 3\n29 to 100 %", "", "23"]


def test_a_line_for_every_variant_and_a_dot_for_every_run() -> None:
    (panel,) = accuracy_over_seeds(CONDITIONS, RECORDS, "length", VARIANTS).axes
    lines = {str(line.get_label()): list(line.get_ydata()) for line in panel.get_lines()}
    assert lines == {"a": pytest.approx([0.625, 0.625]), "b": pytest.approx([0.25, 0.25])}
    dots = [tuple(dot) for part in panel.collections for dot in part.get_offsets()]
    assert set(dots) >= {(4, 0.5), (4, 0.75), (8, 0.5), (8, 0.75), (4, 0.25), (8, 0.25)}


def test_a_figure_only_where_the_diagnostic_has_an_axis() -> None:
    def kinds(axis: str | None, variants: dict[str, str]) -> list[bool]:
        return [section.rows is None for section in seed_sections("Sorting", axis, CONDITIONS, RECORDS, variants)]

    assert kinds("length", VARIANTS) == [True, False]
    assert kinds(None, VARIANTS) == [False]
    assert kinds("length", {run: run for run in VARIANTS}) == []
