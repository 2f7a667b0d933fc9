"""The `composition` diagnostic: every function alone, then compositions by depth and form."""

from pathlib import Path

import pytest

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.settings import ConfigError, build
from remedy.eval.checkpoint import Subject
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.summary import read_summary
from tests.eval.test_evaluate import model_for


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
