"""Where answers are fed: rates per frame stand in a report, single steps are compounded, and what asks for answers is refused."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.one_step import compound_figure, compound_table, compounded, one_step_sections, rates
from remedy.eval.report.page import compose
from remedy.eval.report.verdicts import Comparison, Side, decide
from remedy.eval.tables.colours import COLOURS
from remedy.settings import ConfigError
from tests.eval.made_records import made, together, write_evaluation

FED = {"length": 4, "forcing": "teacher_forced"}
OWN = {"length": 4, "forcing": "action_forced"}
ONE_STEP = {"state_exact": 0.9, "action_exact": None, "value_exact": None, "states": 10, "returns": 0}


def one_step(programs: int = 4) -> pd.DataFrame:
    fed = made([True] * programs, labels=FED, **ONE_STEP).astype(
        {"right": "boolean", "action_exact": float, "value_exact": float}
    )
    return fed.assign(right=None).astype({"right": "boolean"})


def own(right: list[bool]) -> pd.DataFrame:
    return made(right, labels=OWN, **{**ONE_STEP, "state_exact": 0.8}).astype(
        {"action_exact": float, "value_exact": float}
    )


def test_rates_per_frame_stand_where_answers_are_not_the_models() -> None:
    conditions, _ = together(one_step())
    (condition,) = conditions
    assert condition["right"] is None
    assert condition["per_frame"]["states"]["mean"] == pytest.approx(0.9)
    assert condition["per_frame"]["states"]["examples"] == 40
    assert set(condition["per_frame"]) == {"states"}
    head, row = rates(conditions)
    assert dict(zip(head, row))["States"].startswith("90 %")
    assert dict(zip(head, row))["Actions"] == ""


def test_single_steps_are_compounded_beside_what_is_observed() -> None:
    conditions, records = together(one_step(), own([True, False, False, False]))
    (found,) = compounded(conditions, records)
    assert found.expected[0] == pytest.approx(0.9**10)
    assert found.expected[1] < found.expected[0] < found.expected[2]
    head, row = compound_table([found])
    difference, ends = dict(zip(head, row))["Difference in points"].split("\n")
    assert difference == f"{25 - 100 * 0.9**10:+.1f}"
    low, high = map(float, ends.split(" to "))
    assert low < 25 - 100 * 0.9**10 < high
    assert compounded([condition for condition in conditions if condition["right"] is not None], records) == []
    assert one_step_sections("Sorting", None, conditions[1:], records, {"run": "run"}) == []


def test_lines_that_are_fed_are_not_demanded_of_single_steps() -> None:
    """Events and states always right, every second line wrong: with the lines given nothing goes wrong, and (1 - h)^N of events and
    lines together would expect 0.1 %."""
    shares = {"state_exact": 1.0, "value_exact": 1.0, "states": 10, "actions": 10}
    fed = made([True] * 20, labels=FED, **shares, action_exact=0.5)
    fed = fed.assign(right=None).astype({"right": "boolean"})
    lines, free = (
        made([True] * 20, labels={**OWN, "forcing": forcing}, **shares, action_exact=share)
        for forcing, share in (("line_forced", 1.0), ("free", 0.5))
    )
    conditions, records = together(fed, lines, free)
    assert [one.condition["labels"]["forcing"] for one in compounded(conditions, records)] == ["free"]


def test_every_program_has_its_own_number_of_steps() -> None:
    """Of one trace of 2 states and one of 38, the mean of what each comes to is far from what 20 states come to."""
    lengths = [2, 38] * 10
    fed, written = (part.assign(states=lengths) for part in (one_step(20), own([True] * 20)))
    conditions, records = together(fed, written)
    (found,) = compounded(conditions, records)
    h = conditions[0]["per_frame"]["states"]["mean"]
    assert found.steps == 20
    assert found.expected[0] == pytest.approx((h**2 + h**38) / 2)
    assert found.expected[0] > 3 * h**20


def test_a_report_holds_both_and_compares_no_answers_that_were_fed(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", one_step(), own([True, False, False, False]))
    titles = [section.title for section in compose([tmp_path / "a"]).sections]
    assert "Permutation programs: right per frame, given what was fed" in titles
    assert "Permutation programs: what single steps come to, in numbers" in titles
    _, records = together(one_step(), own([True] * 4))
    sides = {"baseline": Side(run="run", where=OWN), "treatment": Side(run="run", where=FED)}
    with pytest.raises(
        ConfigError, match=r"teacher_forced has no right or wrong answers: what they are read from is fed"
    ):
        decide([Comparison(mitigation="x", **sides)], records)


def test_a_figure_has_a_panel_for_each_variant_and_an_entry_for_each_kind_of_line() -> None:
    """Two variants of two seeds, every fourth state or none at two lengths, under three forcings."""
    grid = [(16, 4.0, 4), (64, 4.0, 4), (16, math.inf, 16), (64, math.inf, 64)]
    parts = []
    for run, (length, spacing, horizon) in itertools.product(("a-0", "a-1", "b-0", "b-1"), grid):
        labels = {"length": length, "spacing": spacing, "horizon": horizon}
        parts += [part.assign(run=run, **labels) for part in (one_step(), own([True, False, False, False]))]
        for part, forcing in zip(parts[-2:], ("teacher_forced", "action_forced")):
            part["condition"] = f"{forcing} {length} {spacing}"
    conditions, records = together(*parts)
    compounds = compounded(conditions, records)
    assert len(compounds) == 16
    variants = {run: run[0] for run in records["run"]}
    figure = compound_figure(compounds, "horizon", variants)
    assert [panel.get_title() for panel in figure.axes] == ["a\naction_forced", "b\naction_forced"]
    entries = [entry.get_text() for entry in figure.legends[0].get_texts()]
    kinds = ["length 16, spacing 4", "length 64, spacing 4", "spacing inf"]
    assert entries == ["observed", "expected, (1 - h)^N", *kinds]
    for panel in figure.axes:
        found = Counter((line.get_label(), tuple(line.get_xdata())) for line in panel.get_lines())
        ends = ("observed", "expected, (1 - h)^N")
        assert found == {
            **{(f"{end}, {kind}", (4.0,)): 2 for end in ends for kind in kinds[:2]},
            **{(f"{end}, {kinds[2]}", (16.0, 64.0)): 2 for end in ends},
        }


def test_single_functions_are_left_to_the_table_where_they_are_more_than_colours() -> None:
    def parts(form: str, depth: int, function: str = "") -> list[pd.DataFrame]:
        labels = {"form": form, "depth": depth, "function": function}
        made_of = (one_step(), own([True] * 4))
        return [part.assign(condition=f"{n} {form} {depth} {function}", **labels) for n, part in enumerate(made_of)]

    single = [part for number in range(len(COLOURS) + 1) for part in parts("atomic", 1, f"f{number}")]
    conditions, records = together(*single, *parts("nested", 2), *parts("nested", 3))
    compounds = compounded(conditions, records)
    assert len(compounds) == len(COLOURS) + 3
    (panel,) = compound_figure(compounds, "depth", {"run": "run"}).axes
    assert {tuple(line.get_xdata()) for line in panel.get_lines()} == {(2.0, 3.0)}
