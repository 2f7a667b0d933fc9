"""docs/scale.md: tables are what the script prints, the planner agrees with them, and speeds taken as given are measured ones."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from transformers import CwmConfig

from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.footprint import footprint
from tests.tiny_cwm import write_tiny_cwm

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "scale.py"))


@pytest.mark.slow
def test_the_documents_tables_are_those_of_the_script(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["main"]()
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 6
    for table in tables:
        assert table in DOCUMENT, f"docs/scale.md lacks what `python benchmarks/scale.py` prints:\n{table}"


def test_speeds_that_it_takes_as_given_are_among_the_results(script: dict[str, Any]) -> None:
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for rate in script["RATES"].values():
        assert f"| {rate:,} |" in results


@pytest.mark.slow
def test_the_planner_agrees(script: dict[str, Any], tmp_path: Path) -> None:
    """`remedy plan` reads a config.json and settings of a run; the script has the shapes from Transformers."""
    gpus = 8
    folder = write_tiny_cwm(tmp_path / "model")  # for its tokenizer
    CwmConfig().save_pretrained(folder)
    names = [
        f"model.name_or_path={folder}",
        f"tokenizer.name_or_path={folder}",
        "tokenizer.string_tokenization=subword",
    ]
    changes = [*names, f"train.batch_size={gpus}", "train.gradient_accumulation_steps=1"]
    planned = footprint(load(RunConfig, ROOT / "configs" / "train" / "cwm_lora.yaml", changes), gpus, length=8192)
    recipe = next(one for one in script["RECIPES"] if one.name == "LoRA, ZeRO-3")
    model = script["cwm"](True)
    counts = script["parameter_counts"](model)
    states = script["model_states"](counts, recipe.settings(gpus), gpus, True)
    assert sum(planned.states) == pytest.approx(sum(states), rel=0.01)
    assert planned.activations == pytest.approx(
        script["activations"](model, 1, 8192, script["torch"].bfloat16).checkpointed, rel=0.01
    )
    assert planned.flops / planned.tokens == pytest.approx(
        script["seconds_of"](model, 8192) * script["PEAK"] * script["UTILISATION"] / 8192, rel=0.01
    )
