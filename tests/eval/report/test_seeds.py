"""Holds that runs of several seeds are put together by their means, with the interval between runs."""

import pytest

from remedy.eval.report.seeds import accuracy_over_seeds, over_seeds, repeated, seed_sections
from tests.eval.made_records import made, together

VARIANTS = {"a-0": "a", "a-1": "a", "b-0": "b"}
SHARES = {"a-0": 0.5, "a-1": 0.75, "b-0": 0.25}
CONDITIONS, _ = together(
    *(
        made([True] * int(8 * share) + [False] * int(8 - 8 * share), run=run, labels={"length": length})
        for run, share in SHARES.items()
        for length in (4, 8)
    )
)


def test_a_variant_of_several_runs_repeats() -> None:
    assert repeated(VARIANTS)
    assert not repeated({"a-0": "a", "b-0": "b"})
    assert not repeated({})


def test_the_mean_over_runs_has_the_interval_between_them() -> None:
    head, *rows = over_seeds(CONDITIONS, VARIANTS)
    assert head == ["Variant", "Length", "Runs", "Right", "95 % interval", "Tokens"]
    assert [row[:4] for row in rows] == [
        ["a", "4", "2", "62.5%"],
        ["a", "8", "2", "62.5%"],
        ["b", "4", "1", "25.0%"],
        ["b", "8", "1", "25.0%"],
    ]
    assert rows[2][4] == "one run"
    three, _ = together(*(made([True] * n + [False] * (10 - n), run=f"r{n}") for n in (6, 8, 10)))
    (_, row) = over_seeds(three, {f"r{n}": "v" for n in (6, 8, 10)})
    # t with 2 degrees of freedom: 4.303 * 0.2 / sqrt(3) = 0.497
    assert row == ["v", "3", "80.0%", "30.3% to 100.0%", "23"]


def test_a_line_for_every_variant() -> None:
    (panel,) = accuracy_over_seeds(CONDITIONS, "length", VARIANTS).axes
    lines = {str(line.get_label()): list(line.get_ydata()) for line in panel.get_lines()}
    assert lines == {"a": pytest.approx([0.625, 0.625]), "b": pytest.approx([0.25, 0.25])}


def test_a_figure_only_where_the_diagnostic_has_an_axis() -> None:
    assert [s.rows is None for s in seed_sections("Sorting", "length", CONDITIONS, VARIANTS)] == [True, False]
    assert [s.rows is None for s in seed_sections("Sorting", None, CONDITIONS, VARIANTS)] == [False]
    assert seed_sections("Sorting", "length", CONDITIONS, {}) == []
