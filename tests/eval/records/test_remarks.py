"""What is said beside a rate: the same words in the summary, the command's line and the report."""

from typing import Any

import pytest

from remedy.eval.records.remarks import of_condition, untrained
from remedy.eval.records.summary import summarise
from tests.eval.made_records import made

MANY = 60
CASES: list[tuple[int, dict[str, Any], list[str]]] = [
    (20, {}, []),
    (20, {"chance": 0.1}, []),
    (20, {"chance": 1 / 3}, ["not distinguishable from chance (33%)"]),
    (20, {"chance": 0.9, "start_right": 0.0}, ["below chance (90%)"]),
    (20, {"true_answer": "1"}, ["below most frequent answer (100%)"]),
    (20, {"truncated": [True] * 9 + [False] * 51}, ["9 of 60 truncated by a limit on tokens"]),
    (0, {}, ["floor: none right"]),
    (0, {"truncated": True}, ["all truncated by a limit on tokens", "floor: none right"]),
    (0, {"start_right": 0.01}, ["floor: none right"]),
    (0, {"start_right": 0.5}, ["floor: none right", "below answering with the start (50%)"]),
    (MANY, {"chance": 0.5}, ["ceiling: all right"]),
]


@pytest.mark.parametrize(("right", "columns", "said"), CASES)
def test_a_rate_that_would_mislead_is_said_to(right: int, columns: dict[str, Any], said: list[str]) -> None:
    (condition,) = summarise(made([True] * right + [False] * (MANY - right), **columns))
    assert of_condition(condition) == said


def test_a_model_that_cannot_know_traces_is_untrained() -> None:
    assert [untrained(*given) for given in (({"steps": 3}, 4), ({"steps": 0}, 0), (None, 0), (None, 9))] == [
        "",
        "untrained: 0 steps",
        "",
        "untrained: 9 trace tokens are new to it",
    ]
    (condition,) = summarise(made([False] * 4), "untrained: 0 steps")
    assert of_condition(condition) == ["untrained: 0 steps", "floor: none right"]
