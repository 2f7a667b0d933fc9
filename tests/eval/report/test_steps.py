"""Where answers are fed: rates per frame stand in a report, and what asks for answers is refused."""

from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.page import compose
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


def test_a_report_holds_rates_per_frame_and_compares_no_answers_that_were_fed(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "a", one_step(), own([True, False, False, False]))
    titles = [section.title for section in compose([tmp_path / "a"]).sections]
    assert "Permutation programs: right by frame, where answers are fed" in titles
    _, records = together(one_step(), own([True] * 4))
    sides = {"baseline": Side(run="run", where=OWN), "treatment": Side(run="run", where=FED)}
    with pytest.raises(
        ConfigError, match=r"teacher_forced has no right or wrong answers: what they are read from is fed"
    ):
        decide([Comparison(mitigation="x", **sides)], records)
