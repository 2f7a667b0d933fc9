"""What can be right without a model is computed from the true examples, and stands beside every accuracy."""

import math

import pytest

from remedy.eval.records.baselines import best
from tests.eval.made_records import made, together

ANSWERS = {"chance": 1 / 3, "start_right": [1.0, 0.0, 0.0, 0.0], "true_answer": ["x", "y", "x", "z"]}
RIGHT = [True, True, False, False]


def test_they_are_shares_of_the_true_examples() -> None:
    conditions, _ = together(made(RIGHT, **ANSWERS), made(RIGHT, labels={"forcing": "action_forced"}))
    first, second = conditions
    rules = {"nothing_changed": 0.5, "line_below": 0.75, "value_before": 0.0}
    assert first["baselines"] == {"chance": pytest.approx(1 / 3), "start": 0.25, "majority": 0.5, **rules}
    assert second["baselines"] == {"chance": None, "start": None, "majority": None, **rules}
    assert best([first]) == "50 %\nmost frequent answer"
    assert best([second]) == ""
    nothing, _ = together(made(RIGHT, **{**ANSWERS, "start_right": [1.0, math.nan, 0.0, 0.0]}))
    assert nothing[0]["baselines"]["start"] is None
