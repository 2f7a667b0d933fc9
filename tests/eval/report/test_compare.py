"""Logs of lm-evaluation-harness and inspect_ai, written by them (`examples/harness_logs/make.py`), judged by our rules."""

import json
import math
import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.compare import Reading, compare_logs, read_logs
from remedy.eval.stats import VerdictWord
from remedy.settings import UserError

LOGS = Path("examples/harness_logs")
# Means and standard errors as the harnesses printed them.
LM_EVAL = {
    "base": [(8 / 24, 0.0983), (10 / 24, 0.1028), (11 / 24, 0.1039)],
    "treated": [(16 / 24, 0.0983), (20 / 24, 0.0777), (18 / 24, 0.0903)],
}
INSPECT = {"base": (8 / 24, 0.0983), "treated": (16 / 24, 0.0983)}


def table(path: Path, right: list[int], **columns: list[object]) -> Path:
    pd.DataFrame({"id": range(len(right)), "right": right, **columns}).to_csv(path, index=False)
    return path


def test_lm_eval_means_and_errors_are_ours_too() -> None:
    (verdict,) = compare_logs(LOGS / "lm_eval/base", LOGS / "lm_eval/treated").verdicts
    for side, name in ((verdict.baseline, "base"), (verdict.treatment, "treated")):
        for mine, (mean, error) in zip(side.runs, LM_EVAL[name], strict=True):
            assert mine.mean == pytest.approx(mean)
            assert (mine.high - mine.low) / 2 / 1.96 == pytest.approx(
                error, rel=0.15
            )  # theirs: the normal approximation
    assert verdict.found.seeds == (3, 3)
    assert verdict.found.examples == 24
    assert verdict.word is VerdictWord.INCONCLUSIVE  # three seeds a side ask how many trainings solve the task: none
    assert verdict.of_runs is VerdictWord.HELPED


def test_epochs_of_a_sample_are_one_cluster() -> None:
    (verdict,) = compare_logs(LOGS / "inspect/base", LOGS / "inspect/treated").verdicts
    assert (verdict.found.examples, verdict.found.clusters) == (48, 24)
    for side, (mean, error) in ((verdict.baseline, INSPECT["base"]), (verdict.treatment, INSPECT["treated"])):
        assert side.estimate.mean == pytest.approx(mean)
        assert (side.estimate.high - side.estimate.low) / 2 / 1.96 == pytest.approx(error, rel=0.15)
    assert (verdict.found.gained, verdict.found.lost) == (16, 0)
    assert verdict.word is VerdictWord.HELPED


def test_json_logs_read_as_archives_do(tmp_path: Path) -> None:
    sample = {"id": "a", "epoch": 1, "scores": {"exact": {"value": "C"}}, "metadata": {"family": "x"}}
    log = {
        "status": "success",
        "eval": {"task": "reverse"},
        "samples": [sample, {**sample, "id": "b", "scores": {"exact": {"value": "I"}}}],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    found = read_logs(path, Reading(cluster="family"))
    assert found[["task", "example", "cluster", "right"]].to_numpy().tolist() == [
        ["reverse", "a-1", "x", True],
        ["reverse", "b-1", "x", False],
    ]
    path.write_text(json.dumps({**log, "status": "cancelled"}))
    with pytest.raises(UserError, match="status is 'cancelled'"):
        read_logs(path, Reading())


def inspect_log(path: Path, scores: list[dict | None]) -> Path:
    samples = [{"id": number, "epoch": 1, "scores": one} for number, one in enumerate(scores)]
    path.write_text(json.dumps({"status": "success", "eval": {"task": "reverse"}, "samples": samples}))
    return path


def test_a_scorer_of_several_scores_gives_each_by_its_name(tmp_path: Path) -> None:
    path = inspect_log(tmp_path / "a.json", [{"traces": {"value": {"right": 1.0, "prefix": 0.5}}}])
    assert list(read_logs(path, Reading(metric="right"))["right"]) == [True]
    with pytest.raises(UserError, match="name one by --metric: right,traces, prefix,traces"):
        read_logs(path, Reading())


def test_examples_that_no_log_scores_are_counted(tmp_path: Path) -> None:
    """Of a sample without any score, one that another scorer alone has scored, and one whose scorer failed (NaN), in each log."""
    both = {"exact": {"value": "C"}, "length": {"value": 3}}
    scores: list[dict | None] = [both, both, None, {"length": both["length"]}, {**both, "exact": {"value": math.nan}}]
    sides = [inspect_log(tmp_path / name, scores) for name in ("a.json", "b.json")]
    assert compare_logs(*sides, Reading(metric="exact")).remarks == [
        *(f"{side}: 3 of 5 examples have no score, the first of them '2-1'." for side in sides),
        "b in place of a on reverse: 3 of 5 examples are not scored in every log: left out.",
    ]


def test_a_log_is_not_compared_with_itself(tmp_path: Path) -> None:
    log = table(tmp_path / "a.csv", [1] * 6)
    (tmp_path / "b.csv").symlink_to(log)
    for other in (log, tmp_path, tmp_path / "b.csv"):
        with pytest.raises(UserError, match=r"a\.csv: is on both sides: give logs of two models"):
            compare_logs(log, other)


def test_ids_are_text_and_separators_within_them_are_no_ends_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,right\n01,1\n1,0\n")
    assert list(read_logs(tmp_path / "a.csv", Reading())["example"]) == ["01", "1"]
    (tmp_path / "a.jsonl").write_text('{"id": "a\u2028b\x85", "right": 1}\n', encoding="utf-8")
    assert list(read_logs(tmp_path / "a.jsonl", Reading())["example"]) == ["a\u2028b\x85"]


def test_tasks_share_the_level_and_what_does_not_pair_is_said(tmp_path: Path) -> None:
    right, wrong = [1] * 30 + [0] * 10, [0] * 10 + [1] * 17 + [0] * 13
    before = table(tmp_path / "before.csv", wrong * 2, task=["one"] * 40 + ["two"] * 40)
    after = table(tmp_path / "after.csv", right * 2 + [1], task=["one"] * 40 + ["two"] * 41)
    pd.DataFrame({"id": [1], "right": [1], "task": ["three"]}).to_csv(tmp_path / "more.csv", index=False)
    found = compare_logs(before, after)
    assert max(one.level for one in found.verdicts) <= 0.05
    assert found.remarks == ["two: 1 of 41 examples are not scored in every log: left out."]
    with pytest.raises(UserError, match="share no task"):
        compare_logs(before, tmp_path / "more.csv")


@pytest.mark.parametrize(
    ("right", "columns", "how", "message"),
    [
        ([0.5, 1.0], {}, Reading(), "neither right .1. nor wrong .0.: say .*--right-from"),
        ([1, 0], {}, Reading(cluster="family"), "has no field 'family'"),
        ([1, 0], {}, Reading(metric="acc"), "has no score 'acc'"),
        (["yes", "no"], {}, Reading(), "which is no number"),
        ([float("nan"), 1], {}, Reading(right_from=0.5), "is nan, neither right nor wrong"),
    ],
)
def test_what_cannot_be_judged_is_said(tmp_path: Path, right: list, columns: dict, how: Reading, message: str) -> None:
    path = table(tmp_path / "a.csv", right, **columns)
    with pytest.raises(UserError, match=message):
        compare_logs(path, shutil.copy(path, tmp_path / "b.csv"), how)


@pytest.mark.parametrize("text", ["", "not json", '{"doc_id": 1}', '{"id": 1}', "[1, 2]", "[" * 100_000])
def test_damaged_logs_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "samples_x_1.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=r"samples_x_1\.jsonl"):
        compare_logs(path, path)


def test_a_packed_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remedy.eval.report.compare.MOST_BYTES", 100)
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * 101)
    with pytest.raises(UserError, match=r"header\.json has 101 bytes, and at most 100 are read"):
        read_logs(tmp_path / "a.eval", Reading())


@pytest.mark.parametrize("damage", ["bytes", "method", "encrypted"])
def test_damaged_archives_are_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"status": "success"}))
    packed = bytearray(path.read_bytes())
    entry = packed.index(b"PK\x01\x02")
    if damage == "bytes":
        packed[43:53] = b"\xff" * 10
    elif damage == "method":
        packed[entry + 10] = 97
    else:
        packed[entry + 8] |= 1
    path.write_bytes(packed)
    with pytest.raises(UserError, match=r"a\.eval: cannot be read"):
        read_logs(path, Reading())
