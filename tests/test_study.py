"""The figures of the study's page are drawn from its records, and say what they leave out."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.study import DRAWINGS, Drawing, Recipe, draw, seeds_of
from remedy.settings import UserError

ROOT = Path(__file__).parents[1]
RECIPE = Recipe("attention", "mixers/permutation", "transformer")


def _write(root: Path, run: str, conditions: list[tuple[dict[str, object], float | None]]) -> None:
    folder = root / "mixers" / "permutation" / run / "evaluation"
    folder.mkdir(parents=True)
    found = [{"labels": labels, "right": None if right is None else {"mean": right}} for labels, right in conditions]
    (folder / "summary.json").write_text(json.dumps({"conditions": found}), encoding="utf-8")


def test_seeds_are_read_by_the_label_of_the_axis_and_by_what_is_asked_of_others(tmp_path: Path) -> None:
    for seed, right in ((0, 0.5), (1, 0.75)):
        conditions = [({"length": 4, "forcing": "free"}, right), ({"length": 4, "forcing": "fed"}, 1.0)]
        _write(tmp_path, f"transformer,seed={seed}", [*conditions, ({"length": 8, "forcing": "free"}, None)])
    _write(tmp_path, "transformer-window,seed=0", [({"length": 4, "forcing": "free"}, 0.0)])
    assert seeds_of(tmp_path, RECIPE._replace(where={"forcing": "free"}), "length") == [{4: 0.5}, {4: 0.75}]
    with pytest.raises(UserError, match="several conditions with length 4"):
        seeds_of(tmp_path, RECIPE, "length")


def test_where_all_is_fed_right_is_the_last_state_that_is_predicted(tmp_path: Path) -> None:
    _write(tmp_path, "transformer,seed=0", [({"length": 4}, None), ({"length": 8}, 0.5)])
    folder = tmp_path / "mixers/permutation/transformer,seed=0/evaluation"
    summary = json.loads((folder / "summary.json").read_text())
    summary["conditions"][0]["condition"] = "fed"
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "records").mkdir()
    rows = {"answer": ["a=1", "a=2", "a=3", "a=1"], "true_answer": ["a=1", "a=1", "a=1", "a=1"]}
    pd.DataFrame(rows).to_parquet(folder / "records" / "fed.parquet")
    assert seeds_of(tmp_path, RECIPE._replace(fed=True), "length") == [{4: 0.5}]
    assert seeds_of(tmp_path, RECIPE, "length") == [{8: 0.5}]


def test_tokens_are_of_the_traces_that_were_decoded(tmp_path: Path) -> None:
    _write(tmp_path, "transformer,seed=0", [({"length": 4}, 0.5)])
    folder = tmp_path / "mixers/permutation/transformer,seed=0/evaluation"
    summary = json.loads((folder / "summary.json").read_text())
    summary["conditions"][0] |= {"condition": "free", "written_tokens": 20.0}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "records").mkdir()
    rows = {"written_tokens": [60, 0, 0], "read_tokens": [90, 30, 0]}  # the third's true trace is beyond the limit
    pd.DataFrame(rows).to_parquet(folder / "records" / "free.parquet")
    assert seeds_of(tmp_path, RECIPE, "written_tokens") == [{30.0: 0.5}]


def test_a_figure_is_drawn_of_what_has_run_and_the_rest_is_named(tmp_path: Path) -> None:
    _write(tmp_path, "transformer,seed=0", [({"length": 4}, 0.5), ({"length": 8}, 0.25)])
    drawing = Drawing("length", "commands", {"one": [RECIPE, RECIPE._replace(name="GRU", run="gru")]}, trained=8)
    assert draw(tmp_path, drawing, tmp_path / "figure.png") == ["mixers/permutation/gru"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_page_shows_each_figure_and_its_records_can_be_read(name: str) -> None:
    study = ROOT / "results" / "study"
    pages = [study / "README.md", *study.glob("*/README.md")]
    assert any(f"figures/{name}.png)" in page.read_text(encoding="utf-8") for page in pages)
    for recipes in DRAWINGS[name].panels.values():
        assert any(seeds_of(study, recipe, DRAWINGS[name].by) for recipe in recipes)
