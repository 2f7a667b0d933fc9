"""A diagnostic that is written and registered outside the package is evaluated and reported like any other."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.eval.checkpoint import Subject
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS, Condition, Diagnostic
from remedy.eval.evaluate import evaluate
from remedy.eval.records.schema import LABELS, label
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.page import compose
from remedy.eval.tables.sections import Section
from remedy.settings import ConfigError, build
from tests.eval.test_evaluate import PERMUTATION, model_for


@pytest.fixture
def symbols() -> Iterator[type[Diagnostic]]:
    @DIAGNOSTICS.register("symbols")
    class SymbolsDiagnostic(Diagnostic):
        """How many values can be told apart?"""

        title = "Numbers of values"
        labels = (label("values", "Values that are permuted."),)
        axis = "values"
        compared = ("spacing",)

        kind: Literal["symbols"] = "symbols"
        values: tuple[int, ...] = (3, 4)

        def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
            return [
                self.condition(data.changed({"task.n": n, "reveal.spacing": spacing}), forcing, 3, split, values=n)
                for n in self.values
                for spacing in (1, 2)
                for forcing in self.forcing
            ]

    yield SymbolsDiagnostic
    del DIAGNOSTICS["symbols"]
    del LABELS["values"]


def test_its_axis_is_drawn_its_conditions_are_compared_and_it_may_bring_sections(
    symbols: type[Diagnostic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sections(conditions: Sequence[ConditionSummary], records: pd.DataFrame) -> list[Section]:
        return [Section("Mine", rows=[[f"{len(conditions)} conditions"], [f"{len(records)} records"]])]

    monkeypatch.setattr(symbols, "sections", sections)
    data = PERMUTATION.changed({"task.n": 4})
    model, tokenizer = model_for(data, "symbols")
    settings = build(EvalConfig, {"diagnostics": [{"kind": "symbols", "forcing": ["action_forced"]}]}, "x")
    evaluate(model, tokenizer, Subject(data), settings, tmp_path, "gru")
    composed = compose([tmp_path])
    found = {section.title: section.rows for section in composed.sections}
    assert "Numbers of values: right answers by values" in found
    table = found["Numbers of values: right answers"]
    assert table is not None
    assert table[0][:3] == ["Recipe", "Values", "Spacing"]
    assert len(table) == 1 + 4
    assert found["Mine"] == [["4 conditions"], ["12 records"]]
    assert list(found).index("Mine") < list(found).index("Numbers of values: right answers")
    assert {verdict.comparison.mitigation for verdict in composed.verdicts} == {
        f"gru, values {n}: spacing 2 in place of 1" for n in (3, 4)
    }


def test_conditions_carry_the_labels_that_are_declared(symbols: type[Diagnostic]) -> None:
    with pytest.raises(ValueError, match="declares the labels"):
        symbols.model_validate({}).condition(PERMUTATION, "free", 1, "test", length=3)
    with pytest.raises(ConfigError, match="did you mean 'symbols'"):
        build(EvalConfig, {"diagnostics": [{"kind": "symbol"}]}, "x")
