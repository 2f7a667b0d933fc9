"""Holds that an experiment's plan says runs, cost and what can be seen, and trains nothing."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from remedy.eval.stats import compare, over_seeds, weigh
from remedy.eval.stats.power import smallest_difference
from remedy.launch.experiment import ExperimentConfig
from remedy.launch.plan import print_plan
from remedy.settings import build

GROUP: dict[str, Any] = {
    "base": {
        "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}, "format": "symbolic"},
        "tokenizer": {"kind": "symbols"},
        "model": {"hidden_size": 16, "num_attention_heads": 2},
        "train": {"max_steps": 30, "batch_size": 4},
        "tracking": {"wandb": False},
    },
    "runs": {"a": {}, "b": {"train.learning_rate": 0.002}},
    "grid": {"train.seed": [0, 1, 2]},
    "evaluate": {"diagnostics": [{"kind": "permutation", "lengths": [2, 4], "examples": 50}]},
}


def printed(folder: Path, **settings: Any) -> str:
    config = build(ExperimentConfig, {"name": "e", "output": str(folder), "groups": {"g": GROUP}, **settings})
    screen = io.StringIO()
    print_plan(config, "e", console=Console(file=screen, width=200))
    return screen.getvalue()


def test_a_plan_says_runs_examples_and_what_can_be_seen_and_trains_nothing(tmp_path: Path) -> None:
    text = printed(tmp_path)
    assert "6 runs of 2 variants" in text
    assert "permutation, length 2, horizon 1, forcing free" in text
    row = next(line for line in text.splitlines() if "b (length 4)" in line)
    few = "nothing: 50 programs cannot show 95%, even if all are right; 73 can"
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["b (length 4)", "3 to 3", "50", few, few]
    more = {"diagnostics": [{"kind": "permutation", "lengths": [2, 4], "examples": 80}]}
    text = printed(tmp_path, groups={"g": {**GROUP, "evaluate": more}})
    row = next(line for line in text.splitlines() if "b (length 4)" in line)
    assert "0 against 90 % of trainings that solve it (power 73%) │ nothing: too few seeds" in row
    text = printed(tmp_path, groups={"g": {**GROUP, "grid": {"train.seed": [0, 1, 2, 3, 4]}}})
    row = next(line for line in text.splitlines() if "b (length 4)" in line)
    expected = [f"{100 * smallest_difference((5, 5), 50, level=level):.0f} points" for level in (0.05, 0.025)]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["b (length 4)", "5 to 5", "50", *expected]
    assert list(tmp_path.iterdir()) == []


def test_executions_of_one_function_count_as_one(tmp_path: Path) -> None:
    """Of 40 executions of 10 functions, as many differences are seen as with 10 programs."""
    path = tmp_path / "own.jsonl"
    codes = [f"def f(x):\n    return x + {number}" for number in range(10)]
    path.write_text("".join(json.dumps({"code": code, "input": str(n)}) + "\n" for code in codes for n in range(4)))
    task = {"kind": "programs", "path": str(path), "tracer": {"isolation": "trusted"}}
    base = {**GROUP["base"], "data": {"task": task}, "tokenizer": {"kind": "chars"}}
    evaluate = {"diagnostics": [{"kind": "programs", "answer_only": [False]}], "split": "all"}
    text = printed(
        tmp_path / "e",
        groups={"g": {**GROUP, "base": base, "evaluate": evaluate, "grid": {"train.seed": [0, 1, 2, 3, 4]}}},
    )
    row = next(line for line in text.splitlines() if "5 to 5" in line)
    seen = f"{100 * smallest_difference((5, 5), 10):.0f} points"
    assert [cell.strip() for cell in row.split("│")[3:5]] == ["40, 10 independent", seen]


@pytest.mark.parametrize("seeds", [(6, 6), (math.inf, 8)])
def test_what_is_called_the_smallest_difference_is_seen_four_times_in_five(seeds: tuple[float, float]) -> None:
    generator = np.random.default_rng(0)
    smallest = smallest_difference(seeds, 200, rate=0.4, spread=0.06)
    seen = 0
    for _ in range(300):
        difficulty = generator.random(200)  # outcomes on a program are alike, half of the time
        sides = []
        for given, rate in zip(seeds, (0.4, 0.4 + smallest), strict=True):
            count = 1 if math.isinf(given) else int(given)
            rates = np.clip(rate + 0.06 * generator.normal(size=(count, 1)) * (count > 1), 0, 1)
            draws = np.where(generator.random((count, 200)) < 0.78, difficulty, generator.random((count, 200)))
            sides.append((draws < rates).astype(float))
        judged = compare(*sides, standing=(math.isinf(seeds[0]), False)), *map(over_seeds, sides)
        seen += weigh(*judged).p_value < 0.05
    assert 0.7 <= seen / 300 <= 0.95
