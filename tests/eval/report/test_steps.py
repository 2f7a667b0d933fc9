"""Where answers are fed: rates per frame stand in a report, single steps are compounded, and what asks for answers is refused."""

from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.page import compose
from remedy.eval.report.results import single_step_section
from remedy.eval.report.verdicts import decide
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


def compounded(conditions: list[ConditionSummary], records: pd.DataFrame) -> list[dict[str, str]]:
    (head, *rows), *_ = *(section.rows or [] for section in single_step_section("Sorting", conditions, records)), [[]]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_single_steps_are_compounded_beside_what_is_observed() -> None:
    conditions, records = together(one_step(), own([True, False, False, False]))
    (found,) = compounded(conditions, records)
    assert found["Expected"].startswith("35 %")  # 0.9 ** 10
    difference, ends = found["Difference in points"].split("\n")
    assert difference == f"{25 - 100 * 0.9**10:+.1f}"
    low, high = map(float, ends.split(" to "))
    assert low < 25 - 100 * 0.9**10 < high
    assert single_step_section("Sorting", [one for one in conditions if one["right"] is not None], records) == []


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
    assert [one["Condition"] for one in compounded(conditions, records)] == ["forcing free"]


def test_every_program_has_its_own_number_of_steps() -> None:
    """Of one trace of 2 states and one of 38, the mean of what each comes to is far from what 20 states come to."""
    lengths = [2, 38] * 10
    fed, written = (part.assign(states=lengths) for part in (one_step(20), own([True] * 20)))
    conditions, records = together(fed, written)
    (found,) = compounded(conditions, records)
    h = conditions[0]["per_frame"]["states"]["mean"]
    assert (found["Steps"], h**20 < 0.13) == ("20", True)
    assert found["Expected"].startswith(f"{100 * (h**2 + h**38) / 2:.0f} %")


def test_a_report_holds_both_and_compares_no_answers_that_were_fed(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", one_step(), own([True, False, False, False]))
    titles = [section.title for section in compose([tmp_path / "a"]).sections]
    assert "Permutation programs: right by frame, where answers are fed" in titles
    assert "Permutation programs: what single steps come to" in titles
    _, records = together(one_step(), own([True] * 4))
    sides = {"baseline": Side(run="run", where=OWN), "treatment": Side(run="run", where=FED)}
    with pytest.raises(
        ConfigError, match=r"teacher_forced has no right or wrong answers: what they are read from is fed"
    ):
        decide([Comparison(mitigation="x", **sides)], records)
