"""The study's figures, verdicts and rates are made of its packed records, and its pages say what these say."""

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import packed, study_reports
from benchmarks.study import DRAWINGS, seeds_of
from remedy.checksums import DamagedFile, read_json, write_json
from remedy.eval.records.folder import REQUEST
from remedy.eval.report.fairness import has_no_seed
from remedy.eval.report.reading import find, read_evaluations
from remedy.eval.report.verdicts import compute_verdicts

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "results" / "study"


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_page_shows_each_figure_and_its_records_can_be_read(name: str) -> None:
    pages = [STUDY / "README.md", *STUDY.glob("*/README.md")]
    assert any(f"figures/{name}.png)" in page.read_text(encoding="utf-8") for page in pages)
    for recipes in DRAWINGS[name].panels.values():
        assert any(seeds_of(STUDY, recipe, DRAWINGS[name].by) for recipe in recipes)


@pytest.mark.parametrize("question", study_reports.QUESTIONS)
def test_the_verdicts_and_rates_on_the_page_are_those_of_the_records(question: str) -> None:
    said = (STUDY / "verdicts.md").read_text(encoding="utf-8")
    assert study_reports.section(STUDY / question) in said, "run `python -m benchmarks.study`"


def test_unpacked_folders_are_evaluations_with_the_same_verdicts_and_can_be_packed_again(tmp_path: Path) -> None:
    question, config = STUDY / "pretrained", study_reports.config_of("pretrained")
    folder, again = tmp_path / "pretrained", tmp_path / "again" / "pretrained"
    packed.unpack(question, folder)
    found = read_evaluations(find([folder / group for group in config.groups]).evaluations)
    untrained = [request["run"] for request in found.requests if has_no_seed(request)]
    said = [item._replace(remarks=(), refused="") for item in study_reports.verdicts(question)]
    assert list(map(study_reports.row, compute_verdicts(config.comparisons, found.records, untrained))) == list(
        map(study_reports.row, said)
    )
    packed.pack(folder, again)
    pd.testing.assert_frame_equal(packed.read_records(again), packed.read_records(question), check_like=True)
    runs = packed.read_runs(STUDY)
    mine = runs[runs.index.str.startswith("pretrained/")].dropna(axis="columns", how="all")
    pd.testing.assert_frame_equal(packed.read_runs(again.parent), mine)


def test_each_packed_file_is_what_its_digest_says(tmp_path: Path) -> None:
    for name, texts in packed.read_runs(STUDY).items():
        for text in texts.dropna() if str(name).endswith(".json") else ():
            path = tmp_path / Path(str(name)).name
            path.write_text(text)
            if "digest" in json.loads(text):
                read_json(path, "pack it again")


def test_packing_writes_paths_and_digests_anew_and_refuses_what_is_changed(tmp_path: Path) -> None:
    request = tmp_path / "from" / "run" / "evaluation" / REQUEST
    write_json(request, {"path": "/home/me/x.jsonl"})
    packed.pack(tmp_path / "from", tmp_path / "to" / "question", {"/home/me/": ""})
    packed.unpack(tmp_path / "to" / "question", tmp_path / "again")
    assert read_json(tmp_path / "again" / "run" / "evaluation" / REQUEST, "") == {"path": "x.jsonl"}
    request.write_text(request.read_text().replace("/home/me/", ""))
    with pytest.raises(DamagedFile, match="digest"):
        packed.pack(tmp_path / "from", tmp_path / "to" / "question")
