"""A report says of what may be remembered that it may stand in training, and nothing where it does not."""

from typing import Any

import pandas as pd
import pytest

from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.in_training import in_training_section
from remedy.eval.tables.sections import Rows
from tests.eval.made_records import made, together

SWAPS: dict[str, Any] = {"kind": "permutation", "n": 3, "moves": "swaps", "repertoire": None}
STRINGS: dict[str, Any] = {"kind": "composition", "family": "strings", "functions": ["a", "b", "c"]}


def said(
    parts: tuple[list[ConditionSummary], pd.DataFrame], task: dict[str, Any], examples: int, **trained_on: Any
) -> Rows:
    conditions, records = parts
    request = {
        "run": "run",
        "conditions": [condition["condition"] for condition in conditions],
        "data": {"task": task},
        "training": {"examples": examples},
        "trained_on": {**task, **trained_on},
    }
    found = in_training_section("Programs", conditions, records, [request])
    return [row for section in found for row in (section.rows or [])[1:]]


def lengths(*chosen: int, **labels: Any) -> tuple[list[ConditionSummary], pd.DataFrame]:
    return together(*[made([True], labels={"length": n, "horizon": n, **labels}) for n in chosen])


def test_sequences_of_few_commands_may_all_stand_in_training() -> None:
    assert said(lengths(4, 8, 16, 16384), SWAPS, 2_000) == [
        ["4 commands: 3^4 = 81 sequences", "2,000", "all"],
        ["8 commands: 3^8 = 6,561 sequences", "2,000", "30 %"],
    ]
    assert said(lengths(6, repertoire=1), SWAPS, 10) == [
        ["6 commands of at most 1 different ones: 3 sequences", "10", "all"]
    ]


@pytest.mark.parametrize(
    "trained_on", [{"split_by": "commands"}, {"n": 4}, {"kind": "programs"}, {"held_out_lengths": [4]}]
)
def test_what_training_cannot_have_is_not_said_to_stand_there(trained_on: dict[str, Any]) -> None:
    assert said(lengths(4), SWAPS, 2_000, **trained_on) == []


def test_compositions_of_trained_functions_may_stand_in_training() -> None:
    labels = {"family": "strings", "form": "nested", "function": ""}
    parts = [
        made([True] * 2, diagnostic="composition", labels={**labels, "depth": depth}, functions=functions)
        for depth, functions in ((1, "a"), (2, ["a b", "b c"]))
    ]
    assert said(together(*parts), STRINGS, 20) == [["2 functions: 3^2 = 9 compositions", "20", "all"]]
    for held_out in ({"held_out_depths": [2]}, {"held_out_functions": ["b"]}, {"split_by": "functions"}):
        assert said(together(*parts), STRINGS, 20, **held_out) == []
