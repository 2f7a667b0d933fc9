"""The study's figures, verdicts and rates are made of its packed records, and its pages say what these say."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import judged, packed
from benchmarks.study import (
    DRAWINGS,
    Drawing,
    Recipe,
    draw,
    seeds_of,
)
from remedy.eval.report.fairness import as_it_is
from remedy.eval.report.reading import find, read_evaluations
from remedy.eval.report.verdicts import decide
from remedy.settings import UserError

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "results" / "study"
RECIPE = Recipe("attention", "mixers/permutation", "transformer")


def _write(root: Path, conditions: dict[str, list[dict[str, object]]]) -> None:
    """Records of some runs of `mixers/permutation`, a condition a mapping; lists are of its examples."""
    rows = []
    for run, found in conditions.items():
        for number, condition in enumerate(found):
            plain = {"right": True, "failure": "", "answer": "", "true_answer": "", "condition": f"{number}"}
            own = {"folder": f"permutation/{run}/evaluation", "group": "permutation"}
            rows.append(pd.DataFrame({**plain, **own, **condition}, index=range(4)))
    (root / "mixers").mkdir(parents=True)
    pd.concat(rows, ignore_index=True).to_parquet(root / "mixers" / "records.parquet")


def test_seeds_are_read_by_the_label_of_the_axis_and_by_what_is_asked_of_others(tmp_path: Path) -> None:
    runs: dict[str, list[dict[str, object]]] = {}
    for seed, right in ((0, [True, True, False, False]), (1, [True, True, True, False])):
        fed: list[dict[str, object]] = [
            {"length": 4, "forcing": "fed"},
            {"length": 8, "forcing": "free", "right": None},
        ]
        runs[f"transformer,seed={seed}"] = [{"length": 4, "forcing": "free", "right": right}, *fed]
    _write(tmp_path, {**runs, "transformer-window,seed=0": [{"length": 4, "forcing": "free", "right": False}]})
    assert seeds_of(tmp_path, RECIPE._replace(where={"forcing": "free"}), "length") == [{4: 0.5}, {4: 0.75}]
    with pytest.raises(UserError, match="several conditions with length 4"):
        seeds_of(tmp_path, RECIPE, "length")


def test_a_figure_is_drawn_of_what_has_run_and_the_rest_is_named(tmp_path: Path) -> None:
    _write(tmp_path, {"transformer,seed=0": [{"length": 4}, {"length": 8, "right": False}]})
    drawing = Drawing("length", "commands", {"one": [RECIPE, RECIPE._replace(name="GRU", run="gru")]}, trained=8)
    assert draw(tmp_path, drawing, tmp_path / "figure.png") == ["mixers/permutation/gru"]
    assert (tmp_path / "figure.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_page_shows_each_figure_and_its_records_can_be_read(name: str) -> None:
    pages = [STUDY / "README.md", *STUDY.glob("*/README.md")]
    assert any(f"figures/{name}.png)" in page.read_text(encoding="utf-8") for page in pages)
    for recipes in DRAWINGS[name].panels.values():
        assert any(seeds_of(STUDY, recipe, DRAWINGS[name].by) for recipe in recipes)


@pytest.mark.parametrize("question", judged.QUESTIONS)
def test_the_verdicts_and_rates_on_the_page_are_those_of_the_records(question: str) -> None:
    said = (STUDY / "verdicts.md").read_text(encoding="utf-8")
    assert judged.section(STUDY / question) in said, "run `python -m benchmarks.study`"


def test_unpacked_folders_are_evaluations_with_the_same_verdicts_and_can_be_packed_again(tmp_path: Path) -> None:
    question, config = STUDY / "pretrained", judged.config_of("pretrained")
    folder, again = tmp_path / "pretrained", tmp_path / "again" / "pretrained"
    packed.unpack(question, folder)
    found = read_evaluations(find([folder / group for group in config.groups]).evaluations)
    untrained = [request["run"] for request in found.requests if as_it_is(request)]
    said = [item._replace(remarks=(), refused="") for item in judged.verdicts(question)]
    assert list(map(judged.row, decide(config.comparisons, found.records, untrained))) == list(map(judged.row, said))
    packed.pack(folder, again)
    pd.testing.assert_frame_equal(packed.read_records(again), packed.read_records(question), check_like=True)
    runs = packed.read_runs(STUDY)
    mine = runs[runs.index.str.startswith("pretrained/")].dropna(axis="columns", how="all")
    pd.testing.assert_frame_equal(packed.read_runs(again.parent), mine)
