"""The `composition` diagnostic: every function alone, then compositions by depth and form, and what is said of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.tasks import Task
from remedy.eval.checkpoint import Subject
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.composition import CompositionDiagnostic, theory_line
from remedy.eval.evaluate import evaluate
from remedy.eval.summary import read_summary
from tests.eval.made_records import made, together
from tests.eval.test_evaluate import model_for


def condition(form: str, depth: int, right: list[bool], functions: list[str], function: str = "") -> pd.DataFrame:
    labels: dict[str, Any] = {"family": "strings", "form": form, "depth": depth, "function": function}
    return made(right, diagnostic="composition", labels=labels, functions=functions)


LABELS: dict[str, Any] = {"family": "booleans", "form": "atomic", "depth": 1}
SINGLE = [
    condition("atomic", 1, [True, True], ["a", "a"], "a"),
    condition("atomic", 1, [True, False], ["b", "b"], "b"),
]
NESTED = condition("nested", 2, [False, False], ["a b", "b b"])


def test_the_theory_line_is_the_product_of_atomic_accuracies() -> None:
    _, records = together(*SINGLE, NESTED)
    assert theory_line(records).to_dict() == {1: 0.75, 2: pytest.approx((0.5 + 0.25) / 2)}


def test_compositions_stand_beside_what_single_functions_let_expect() -> None:
    figure, by_depth, single = CompositionDiagnostic.sections(*together(*SINGLE, NESTED))
    assert figure.draw is not None
    drawn = figure.draw()
    assert drawn is not None
    assert [line.get_label() for line in drawn.axes[0].get_lines()] == ["expected", "atomic", "nested"]
    assert by_depth.rows is not None
    assert by_depth.rows[0] == ["Run", "Depth 2"]
    assert single.rows is not None
    assert [row[0] for row in single.rows] == ["Function", "a", "b"]


def test_single_functions_alone_are_a_table() -> None:
    (single,) = CompositionDiagnostic.sections(*together(*SINGLE))
    assert single.rows is not None
    assert [row[1].split("\n")[0] for row in single.rows[1:]] == ["100 %", "50 %"]


def test_it_runs_over_functions_depths_and_forms(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "functions": ["mirror_str", "sort_chars"]}})
    model, tokenizer = model_for(data, "chars")
    diagnostic = {"kind": "composition", "depths": [2, 3], "forcing": ["teacher_forced"], "examples": 3}
    settings = build(EvalConfig, {"diagnostics": [diagnostic]}, "x")
    conditions = read_summary(evaluate(model, tokenizer, Subject(data), settings, tmp_path, "gru"))
    labels = [condition["labels"] for condition in conditions]
    assert {(one["form"], one["depth"], one["function"]) for one in labels} == {
        ("atomic", 1, "mirror_str"),
        ("atomic", 1, "sort_chars"),
        *((form, depth, "") for form in ("nested", "flattened") for depth in (2, 3)),
    }


def test_forms_without_depths_are_refused() -> None:
    with pytest.raises(ConfigError, match="forms does nothing without depths"):
        build(EvalConfig, {"diagnostics": [{"kind": "composition", "depths": [], "forms": ["nested"]}]}, "x")


ZOO = ("booleans", "bitwise", "math", "characters", "lists", "sets", "dicts")
ANOTHER = DataConfig.model_validate({"task": {"kind": "permutation"}}).task


def zoo_conditions(split: str, trained_on: Task | None, families: Sequence[str] = ZOO) -> list[Condition]:
    data = DataConfig.model_validate({"task": {"kind": "composition", "family": "booleans"}})
    diagnostic = CompositionDiagnostic(families=tuple(families), depths=(2,), examples=100)
    return diagnostic.conditions(data, split, trained_on)


def test_all_domains_can_be_evaluated_and_a_small_space_is_evaluated_whole() -> None:
    found = zoo_conditions("test", None)
    assert {one.labels["family"] for one in found} == set(ZOO)
    sizes = {one.labels["function"]: (one.split, one.examples) for one in found}
    assert sizes["bool_not"] == ("all", 2)
    assert sizes["bool_majority"] == ("all", 8)
    assert sizes["char_lower"] == ("all", 52)
    assert sizes["math_absolute"] == ("all", 100)
    assert sizes["list_reverse"] == ("test", 100)  # endless
    for one in found:
        drawn = one.data.task.draw(one.split, range(one.examples), 0, False)
        if one.split == "all":
            assert len({program.identity for program in drawn}) == one.examples


def test_a_model_that_was_trained_here_is_asked_what_its_training_did_not_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = zoo_conditions("test", ANOTHER, ["booleans"])
    assert {one.split for one in found} == {"test"}
    assert "bool_not" not in {one.labels["function"] for one in found}
    assert "no program of the test split is of" in caplog.text
    everything = zoo_conditions("all", ANOTHER, ["booleans"])
    assert {one.split for one in everything} == {"all"}
    assert len(everything) == 8 + 2
    only = CompositionDiagnostic(families=("booleans",), functions=("bool_not",), depths=())
    data = DataConfig.model_validate({"task": {"kind": "composition", "family": "booleans"}})
    with pytest.raises(ConfigError, match="`split: all` evaluates every program"):
        only.conditions(data, "test", ANOTHER)


def test_reports_say_where_there_are_fewer_programs() -> None:
    few = made([True, True], diagnostic="composition", labels={**LABELS, "function": "bool_not"})
    many = made([True] * 8, diagnostic="composition", labels={**LABELS, "function": "bool_majority"})
    (single,) = CompositionDiagnostic.sections(*together(few, many))
    assert single.note == (
        "Fewer programs than the 8 of others: family booleans, function bool_not, form atomic, depth 1: 2."
    )
