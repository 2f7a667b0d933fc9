"""A diagnostic that is written and registered outside the package is evaluated and reported like any other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.tasks import Task
from remedy.eval.checkpoint import Subject
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import DIAGNOSTICS, Condition, Diagnostic
from remedy.eval.evaluate import evaluate
from remedy.eval.records.schema import label, read_records
from remedy.eval.records.summary import read_summary
from remedy.eval.report.page import report
from remedy.settings import ConfigError, build
from tests.eval.test_evaluate import PERMUTATION, model_for


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    DIAGNOSTICS.register("seeds")(SeedsDiagnostic)
    yield
    del DIAGNOSTICS["seeds"]


class SeedsDiagnostic(Diagnostic):
    """The same conditions over programs of several seeds."""

    title = "Seeds"
    labels = (label("data_seed", "The seed that programs are drawn with."),)

    kind: Literal["seeds"] = "seeds"
    """The diagnostic."""
    seeds: tuple[int, ...] = (1, 2)
    """Seeds, one condition each."""

    def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
        return [
            self.condition(data.changed({"seed": seed}), forcing, 3, split, data_seed=seed)
            for seed in self.seeds
            for forcing in self.forcing
        ]


@pytest.mark.slow
def test_it_is_evaluated_and_reported(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    settings = build(EvalConfig, {"diagnostics": [{"kind": "seeds", "seeds": [3, 4]}]}, "x")
    summary = evaluate(model, tokenizer, Subject(PERMUTATION), settings, tmp_path / "run", "gru")
    assert [condition["labels"]["data_seed"] for condition in read_summary(summary)] == [3, 4]
    rows = [read_records(path) for path in sorted((tmp_path / "run" / "records").glob("*.parquet"))]
    assert {int(records["data_seed"].iloc[0]) for records in rows} == {3, 4}
    report([tmp_path / "run"], tmp_path / "report")
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert "Seeds" in markdown
    assert "Data seed" in markdown


def test_a_label_that_is_missing_or_not_declared_is_an_error() -> None:
    class Careless(SeedsDiagnostic):
        def conditions(self, data: DataConfig, split: str, trained_on: Task | None = None) -> list[Condition]:
            return [self.condition(data, "free", 3, split, seed=1)]

    with pytest.raises(ValueError, match=r"declares the labels \['data_seed'\], not \['seed'\]"):
        Careless().conditions(PERMUTATION, "test")


def test_an_unknown_kind_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'seeds'"):
        build(EvalConfig, {"diagnostics": [{"kind": "seed"}]}, "x")


def test_conditions_of_one_label_are_not_merged() -> None:
    settings = build(EvalConfig, {"diagnostics": [{"kind": "seeds", "seeds": [1, 1]}]}, "x")
    with pytest.raises(ConfigError, match="is there twice"):
        conditions_of(settings, Subject(PERMUTATION))
