"""Holds what a report is composed of, from folders of evaluations and measurements, before it is rendered."""

import subprocess
import sys
from pathlib import Path

import pytest

from remedy.eval.report.comparison import Comparison, Side
from remedy.eval.report.page import compose, report
from remedy.eval.stats import VerdictWord
from remedy.settings import UserError
from tests.eval.made_records import made, write_evaluation

LENGTHS = (4, 8)


def evaluation(folder: Path, run: str, right: bool, diagnostic: str = "permutation", variant: str = "") -> Path:
    parts = [made([right] * 100, run=run, diagnostic=diagnostic, labels={"length": n, "horizon": n}) for n in LENGTHS]
    return write_evaluation(folder / run, *parts, variant=variant)


def titles(folders: list[Path]) -> list[str]:
    return [section.title for section in compose(folders).sections]


def test_every_run_is_compared_and_a_diagnostic_with_an_axis_is_drawn_along_it(tmp_path: Path) -> None:
    folders = [evaluation(tmp_path, "a", False), evaluation(tmp_path, "b", True)]
    found = compose(folders)
    assert [verdict.word for verdict in found.verdicts] == [VerdictWord.FIXED] * 2
    assert [section.title for section in found.sections] == [
        "Permutation programs: horizon at 95%",
        "Permutation programs: right answers by horizon",
        "Permutation programs: right answers",
        "Permutation programs: failure classes",
        "Permutation programs: tokens",
        "What moved which failures",
        "Recipes",
    ]
    sides = {side: Side(run=run, where={"length": 4}) for side, run in (("baseline", "b"), ("treatment", "a"))}
    assert [one.word for one in compose(folders, [Comparison(mitigation="m", **sides)]).verdicts] == [VerdictWord.WORSE]


def test_a_diagnostic_that_is_not_known_here_is_reported_all_the_same(tmp_path: Path) -> None:
    found = titles([evaluation(tmp_path, "a", False, diagnostic="sorting")])
    assert found[:2] == ["Sorting: right answers", "Sorting: failure classes"]


def test_the_baseline_is_named_or_said_to_be_the_first(tmp_path: Path) -> None:
    folders = [evaluation(tmp_path, "a", False), evaluation(tmp_path, "b", True)]
    (said,) = compose(folders).remarks
    assert said.startswith("No baseline was named for permutation, so a, the first, is used")
    named = compose(folders, baselines=["b"])
    assert (named.remarks, named.verdicts[0].word) == ([], VerdictWord.WORSE)
    assert compose(folders[:1]).remarks == []
    with pytest.raises(UserError, match="baseline: no variant or run 'c'"):
        compose(folders, baselines=["c"])


def test_records_that_do_not_count_states_by_kind_say_so(tmp_path: Path) -> None:
    kinds = [name for name in made([True]) if "changed_states" in name]
    old = write_evaluation(tmp_path / "old", made([True] * 9, run="a").drop(columns=kinds))
    said = "States are not counted by kind in older records: a; evaluate again."
    assert compose([old]).remarks == [said]
    assert said in compose([old, evaluation(tmp_path, "b", True)]).remarks


def test_a_report_needs_no_torch_and_is_imported_without_figures(tmp_path: Path) -> None:
    evaluation(tmp_path, "a", False)
    code = (
        "import sys; from pathlib import Path; from remedy.eval.report.page import report\n"
        "heavy = {'torch', 'transformers', 'matplotlib'} & {*sys.modules}\n"
        f"report([Path({str(tmp_path)!r})], Path({str(tmp_path / 'report')!r}))\n"
        "print(heavy, {'torch', 'transformers'} & {*sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["set()", "set()"], found.stderr


def test_a_folder_without_evaluations_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evaluation or measurement found"):
        report([tmp_path], tmp_path / "out")


def test_evaluations_that_contradict_each_other_or_miss_records_are_named(tmp_path: Path) -> None:
    first, second = (evaluation(tmp_path / name, "run", right=True) for name in ("a", "b"))
    with pytest.raises(UserError, match=r"a.run and .*b.run hold the same conditions of a run 'run'.*--name"):
        compose([first, second])
    next((second / "records").glob("*.parquet")).unlink()
    with pytest.raises(UserError, match=r"b.run.records: the records of .*length=[48].* are missing; evaluate again"):
        compose([second])
    for damaged in (b"[]", b"{"):
        (first / "evaluation.json").write_bytes(damaged)
        with pytest.raises(UserError, match=r"a.run.evaluation\.json: is damaged.*evaluate again"):
            compose([first])
