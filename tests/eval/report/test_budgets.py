"""Budgets: the table of runs says what training took, and a verdict in what its sides were unequal."""

from pathlib import Path
from typing import Any

import pytest

from remedy.eval.report.budgets import unequal
from remedy.eval.report.page import compose
from remedy.eval.report.wording import verdict_cell
from tests.eval.made_records import made, write_evaluation

TRAINING: dict[str, Any] = {
    "steps": 800,
    "examples": 25_600,
    "tokens": 1_200_000,
    "flops": 3.4e12,
    "learning_rate": 0.004,
    "seed": 0,
    "data_seed": 0,
    "kept_step": 800,
    "stopped_early": False,
    "validation": None,
    "chosen": {},
}
CHOSEN = {"chosen": {"train.learning_rate": 0.004}}


@pytest.mark.parametrize(
    ("baseline", "treatment", "says"),
    [
        ({}, {}, []),
        ({}, {"tokens": 1_230_000, "flops": 3.5e12, "seed": 1}, []),
        ({}, {"steps": 1600, "examples": 51_200}, ["steps 1,600 against 800", "examples 51,200 against 25,600"]),
        ({}, {"tokens": 400_000}, ["tokens 4e+05 against 1.2e+06"]),
        ({}, {"flops": 5e12}, ["FLOPs 5e+12 against 3.4e+12"]),
        ({}, {"learning_rate": 0.002}, ["learning rate 0.002 against 0.004, neither chosen on validation"]),
        ({}, CHOSEN, ["learning rate chosen on validation for the treatment alone"]),
        (CHOSEN, {}, ["learning rate chosen on validation for the baseline alone"]),
        (CHOSEN, {"learning_rate": 0.002, "chosen": {"train.learning_rate": 0.002}}, []),
        (None, {}, ["only the treatment was trained here"]),
        (None, None, []),
    ],
)
def test_what_is_unequal_is_said_and_nothing_else(
    baseline: dict[str, Any] | None, treatment: dict[str, Any] | None, says: list[str]
) -> None:
    sides = [[{"training": None if side is None else {**TRAINING, **side}}] for side in (baseline, treatment)]
    assert unequal(*sides) == says
    assert bool(unequal(*reversed(sides))) == bool(says)
    assert unequal(sides[0] * 3, sides[1] * 2) == says


def test_a_verdict_between_unequal_arms_says_so_and_the_table_shows_what_training_took(tmp_path: Path) -> None:
    folders = [
        write_evaluation(
            tmp_path / run,
            made([right] * 100, run=run, labels={"length": 4, "horizon": 4}),
            training={**TRAINING, "steps": steps, "kept_step": 400},
        )
        for run, right, steps in (("a", False, 800), ("b", True, 1600))
    ]
    found = compose(folders)
    assert verdict_cell(found.verdicts[0]).splitlines()[-1] == "unequal training: steps 1,600 against 800"
    rows = found.sections[0].rows
    assert rows is not None
    first = dict(zip(rows[0], rows[1], strict=True))
    assert first["Training"].splitlines() == [
        "800 steps",
        "25,600 examples",
        "1,200,000 tokens",
        "3.4e+12 FLOPs",
        "the best kept, of step 400",
    ]
    assert (first["Learning rate"], first["Seed"]) == ("0.004", "0")
    equal = compose(
        folders[:1]
        + [
            write_evaluation(
                tmp_path / "c", made([True] * 100, run="c", labels={"length": 4, "horizon": 4}), training=TRAINING
            )
        ]
    )
    assert "unequal" not in verdict_cell(equal.verdicts[0])
