"""What is said beside a rate: the same words in the summary, the command's line and the report."""

from typing import Any

import pytest

from remedy.data_gen.roles import Role
from remedy.eval.records.remarks import Knowledge, of_condition
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
    known = [Knowledge({"steps": 3}, 4), Knowledge({"steps": 0}), Knowledge(), Knowledge(None, 9)]
    assert [one.untrained for one in known] == [
        "",
        "untrained: 0 steps",
        "",
        "untrained: 9 trace tokens are new to it",
    ]
    (condition,) = summarise(made([False] * 4), known[1])
    assert of_condition(condition) == ["untrained: 0 steps", "floor: none right"]


WHY = "which train.loss_roles never supervised"
TEXT = {Role.CONTEXT, Role.STRUCTURE, Role.EVENT, Role.ACTION, Role.STATE, Role.VALUE}
SYMBOLS = {Role.CONTEXT, Role.STRUCTURE, Role.QUERY, Role.ACTION, Role.STATE}


@pytest.mark.parametrize(
    ("supervised", "forcing", "one_token", "shown", "said"),
    [
        (None, "free", False, TEXT, ""),
        (["state", "value", "structure", "event", "action"], "free", False, TEXT, ""),
        (["state", "value"], "teacher_forced", False, TEXT, f"not asked: structure, action, event, {WHY}"),
        (
            ["state", "value"],
            "free",
            False,
            TEXT,
            f"free leaves structure, action, event to the model, {WHY}: forcing teacher_forced feeds them",
        ),
        # Separators are fed, but end a text only where the model writes them.
        (
            ["state", "value"],
            "action_forced",
            False,
            TEXT,
            f"action_forced leaves structure to the model, {WHY}: forcing teacher_forced feeds them",
        ),
        (["state", "value", "structure"], "action_forced", False, TEXT, ""),
        (["state", "value", "structure"], "control_flow", False, TEXT, ""),
        (["state"], "action_forced", True, SYMBOLS, ""),
        (
            ["state"],
            "free",
            True,
            SYMBOLS,
            f"free leaves structure, action, query to the model, {WHY}: forcing action_forced feeds them",
        ),
        (
            ["structure", "event", "action"],
            "context+structure",
            False,
            TEXT,
            f"context+structure leaves state, value to the model, {WHY}: forcing state_forced feeds them",
        ),
    ],
)
def test_what_training_never_supervised_is_said(
    supervised: list[str] | None, forcing: str, one_token: bool, shown: set[Role], said: str
) -> None:
    knowledge = Knowledge({"steps": 3, "supervised": supervised})
    assert knowledge.lacks(forcing, one_token, shown) == said
