"""Pages of failures beside a report: which are chosen, that they are what `show` shows, and that a report stands without them."""

import re
from pathlib import Path

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.report.page import report
from remedy.eval.report.records import MOST_OF_CLASS, MOST_TOKENS, TITLE, choose_records
from remedy.eval.view.records import record_of_folder
from remedy.eval.view.terminal import page
from remedy.settings import build
from tests.eval.made_records import made
from tests.eval.test_evaluate import model_for


def failed(count: int, run: str = "a", spacing: int = 1, **columns: object) -> pd.DataFrame:
    about = {"first_error_frame": 2, "first_error_role": "state", "frames_right": 1, **columns}
    return made([False] * count, run=run, labels={"spacing": spacing}, **about)


def test_conditions_of_all_runs_take_turns_short_ones_first_and_no_cluster_is_shown_twice() -> None:
    records = pd.concat([failed(40, run, spacing) for run in "ab" for spacing in (1, 2)], ignore_index=True)
    records = records.assign(
        written_tokens=[MOST_TOKENS if place % 40 > 30 else 40 - place % 40 for place in range(160)]
    )
    found = choose_records(records)
    assert list(found["name"]) == [f"wrong-state-{number}" for number in range(1, MOST_OF_CLASS + 1)]
    assert list(zip(found["run"], found["spacing"]))[:5] == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 1)]
    assert list(found["cluster"]) == [f"{place:04}" for place in range(30, 20, -1)]
    pd.testing.assert_frame_equal(choose_records(records[::-1][::-1]), found)


DATA = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 2}, "reveal": {"locals": "diff"}})


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("evaluation")
    evaluate_in(folder, DATA)
    return folder


def evaluate_in(folder: Path, data: DataConfig) -> None:
    diagnostic = {"kind": "permutation", "lengths": [2], "forcing": ["action_forced"], "examples": 12}
    settings = build(EvalConfig, {"diagnostics": [diagnostic], "max_new_tokens": 300}, "x")
    model, tokenizer = model_for(data, "chars")
    evaluate(model, tokenizer, CheckpointInfo(data), settings, folder, "gru")


def test_one_run_may_be_evaluated_at_two_densities_in_two_folders(evaluated: Path, tmp_path: Path) -> None:
    evaluate_in(tmp_path / "sparse", DATA.changed({"reveal.spacing": 2, "reveal.frames": "shown"}))
    report([evaluated, tmp_path / "sparse"], tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "spacing 2.0; locals diff; frames shown" in text
    assert len(list((tmp_path / "report" / "records").iterdir())) == len(re.findall(r"\(records/", text)) > 0


def test_a_report_links_pages_that_are_those_of_show(evaluated: Path, tmp_path: Path) -> None:
    text = report([evaluated], tmp_path).read_text(encoding="utf-8")
    assert f">{TITLE}</h3>" in text
    links = re.findall(r'<a href="(records/[\w-]+\.html)">([\w-]+)</a>', text)
    assert links
    assert len(links) == len(list((tmp_path / "records").iterdir())) <= MOST_OF_CLASS
    (path,) = (evaluated / "records").glob("*.parquet")
    records = read_records(path).set_index("index", drop=False)
    views = {page(record_of_folder(evaluated, index, "")) for index in records["index"]}
    for link, name in links:
        assert (tmp_path / link).read_text(encoding="utf-8") in views
        assert f"[{name}]({link})" in (tmp_path / "report.md").read_text(encoding="utf-8")
    for kind, count in records["failure"].value_counts().items():
        assert re.search(rf"{kind} \d+ of {count}\b", text)
    assert len(read_generations(evaluated / "generations" / path.name)) == 12
