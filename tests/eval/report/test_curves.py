"""A report shows how validation went while its runs were trained, and nothing where nobody validated."""

from pathlib import Path

import pytest

from remedy.eval.report.curves import curve_section
from remedy.eval.report.page import compose
from tests.eval.made_records import made, write_evaluation
from tests.eval.report.test_budgets import TRAINING

CURVE = [[100, 2.0, 0.0], [200, 1.0, 0.5]]


def test_runs_that_validated_are_drawn_in_the_colour_of_their_recipe(tmp_path: Path) -> None:
    curves = {"a-0": CURVE, "a-1": CURVE, "b": CURVE[:1], "c": None}
    folders = [
        write_evaluation(
            tmp_path / run,
            made([True], run=run, labels={"length": 4, "horizon": 4}),
            variant=run.split("-")[0],
            training=TRAINING if curve is None else {**TRAINING, "curve": curve},
        )
        for run, curve in curves.items()
    ]
    section = next(one for one in compose(folders, []).sections if one.title == "Validation while training")
    assert section.draw is not None
    drawn = section.draw()
    assert drawn is not None
    losses, matches = drawn.axes
    assert [list(line.get_ydata()) for line in losses.get_lines()] == [[2.0, 1.0]] * 2
    assert [list(line.get_ydata()) for line in matches.get_lines()] == [[0.0, 0.5]] * 2
    assert {line.get_label() for line in losses.get_lines()} == {"a"}


@pytest.mark.parametrize("training", [None, TRAINING, {**TRAINING, "curve": []}])
def test_nothing_is_drawn_where_nobody_validated(training: dict[str, object] | None) -> None:
    assert curve_section([{"run": "a", "training": training}], {"a": "a"}) == []
