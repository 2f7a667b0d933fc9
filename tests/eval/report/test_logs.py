"""Logs of other harnesses: how they are read, and that a damaged or hostile one is one line."""

import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remedy.eval.report.logs import LogOptions, read_logs
from remedy.settings import UserError
from tests.eval.report.harness_logs import inspect_log, samples


def test_json_logs_read_as_archives_do(tmp_path: Path) -> None:
    sample = {"id": "a", "epoch": 1, "scores": {"exact": {"value": "C"}}, "metadata": {"family": "x"}}
    log = {
        "status": "success",
        "eval": {"task": "reverse"},
        "samples": [sample, {**sample, "id": "b", "scores": {"exact": {"value": "I"}}}],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    found = read_logs(path, LogOptions(cluster="family"))
    assert found[["task", "example", "cluster", "right"]].to_numpy().tolist() == [
        ["reverse", "a-1", "x", True],
        ["reverse", "b-1", "x", False],
    ]
    path.write_text(json.dumps({**log, "status": "cancelled"}))
    with pytest.raises(UserError, match="status is 'cancelled'"):
        read_logs(path, LogOptions())


def test_a_scorer_of_several_scores_gives_each_by_its_name(tmp_path: Path) -> None:
    path = inspect_log(tmp_path / "a.json", [{"traces": {"value": {"right": 1.0, "prefix": 0.5}}}])
    assert list(read_logs(path, LogOptions(metric="right"))["right"]) == [True]
    with pytest.raises(UserError, match="name one by --metric: right,traces, prefix,traces"):
        read_logs(path, LogOptions())


def test_ids_are_text_and_separators_within_them_are_no_ends_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,right\n01,1\n1,0\n")
    assert list(read_logs(tmp_path / "a.csv", LogOptions())["example"]) == ["01", "1"]
    (tmp_path / "a.jsonl").write_text('{"id": "a\u2028b\x85", "right": 1}\n', encoding="utf-8")
    assert list(read_logs(tmp_path / "a.jsonl", LogOptions())["example"]) == ["a\u2028b\x85"]


def test_values_of_tables_are_text_and_an_empty_one_is_none(tmp_path: Path) -> None:
    rows = ["NA,True,,", "null,false,,", "None,,,x", "1.0, 1 ,,x"]
    (tmp_path / "a.csv").write_text("\n".join(["\ufeffid,right,task,seed", *rows]), encoding="utf-8")
    found = read_logs(tmp_path / "a.csv", LogOptions())
    assert found[["task", "seed", "example"]].to_numpy().tolist() == [
        ["", "", "NA"],
        ["", "", "null"],
        ["", "x", "None"],
        ["", "x", "1.0"],
    ]
    assert list(found["right"]) == [True, False, None, True]
    (tmp_path / "a.jsonl").write_text('{"id": 1, "right": "False", "task": null}\n')
    assert read_logs(tmp_path / "a.jsonl", LogOptions())[["task", "right"]].to_numpy().tolist() == [["", False]]
    (tmp_path / "a.csv").write_text(f"id,right,answer\n1,1,{'x' * 200_000}\n")
    assert list(read_logs(tmp_path / "a.csv", LogOptions())["right"]) == [True]
    for text, said in (
        ("id,right\n1,1,1\n", "'1' has more values than"),
        ('id,right\n"1,1\n', "unexpected end"),
        ("id,right,right\n1,1,0\n", "the column 'right' is there twice"),
    ):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(UserError, match=f"a.csv: cannot be read .*{said}"):
            read_logs(tmp_path / "a.csv", LogOptions())


@pytest.mark.parametrize("text", ["", "not json", '{"doc_id": 1}', '{"id": 1}', "[1, 2]", "[" * 100_000])
def test_damaged_logs_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "samples_x_1.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=r"samples_x_1\.jsonl"):
        read_logs(path, LogOptions())


@pytest.mark.parametrize("name", ["log.json", "results_2024.json"])
def test_a_json_file_is_bounded_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("remedy.eval.report.logs.MOST_JSON", 100)
    (tmp_path / "samples_reverse_2024.jsonl").write_text("{}")
    (tmp_path / name).write_text(" " * 101)
    with pytest.raises(UserError, match=f"{name}.* is no plain file of at most 100 bytes"):
        read_logs(tmp_path / ("log.json" if name == "log.json" else "samples_reverse_2024.jsonl"), LogOptions())


def test_a_packed_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remedy.eval.report.logs.MOST_BYTES", 100)
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", " " * 101)
    with pytest.raises(UserError, match=r"a\.eval: has 101 bytes, and at most 100 are read"):
        read_logs(tmp_path / "a.eval", LogOptions())


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
        read_logs(path, LogOptions())


def test_metadata_is_that_of_samples(tmp_path: Path) -> None:
    """inspect_ai's summaries hold one sentence for every value of more than 1 kB."""
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"status": "success", "eval": {"task": "t"}}))
        archive.writestr("summaries.json", "[]")
        for number in range(4):
            sample = {
                "id": number,
                "epoch": 1,
                "scores": {"m": {"value": 1}},
                "metadata": {"text": [number // 2] * 999},
            }
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    assert read_logs(tmp_path / "a.eval", LogOptions(cluster="text"))["cluster"].nunique() == 2


def test_samples_of_lm_eval_before_december_2024_are_read(tmp_path: Path) -> None:
    path = samples(tmp_path / "samples_t_1.jsonl", [0, 1], metrics=None)
    found = read_logs(path, LogOptions())
    assert (set(found["metric"]), list(found["right"])) == ({"match,none"}, [False, True])


def test_a_mistake_in_a_log_is_said_with_its_line(tmp_path: Path) -> None:
    path = samples(tmp_path / "samples_t_1.jsonl", [0, 1, 1])
    lines = path.read_text().splitlines(keepends=True)
    for text, message in (
        ("".join(lines)[:-9], "line 3: cannot be read"),
        ("".join(lines).replace('"doc_id": 2', '"doc_id": 0'), "line 3: example '0' is there twice"),
        ("".join(lines).replace(": 0.0", ': "no"'), "line 1: match,none is 'no', which is no number"),
        ("".join(lines).replace('"match": ', '"other": '), " no example has a value of 'match,none'"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=f"^{path}: ?{message}"):
            read_logs(path, LogOptions())


def test_lists_of_logs_are_no_logs(tmp_path: Path) -> None:
    inspect_log(tmp_path / "a.json", [{"exact": {"value": 1}}])
    for name in ("logs.json", "eval-set.json", ".eval-set.json"):
        (tmp_path / name).write_text("{}")
    assert len(read_logs(tmp_path, LogOptions())) == 1


def test_a_path_without_a_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.eval")
    for name, message in (("a.eval", "is no plain file"), ("b.csv", "no such file or folder")):
        with pytest.raises(UserError, match=f"{name}: {message}$"):
            read_logs(tmp_path / name, LogOptions())


def test_a_task_that_is_no_name_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"status": "success", "eval": {"task": {"name": "x"}}, "samples": []}))
    with pytest.raises(UserError, match=r"the log's task is .*'x'}, which is no name"):
        read_logs(path, LogOptions())


def test_rows_and_values_of_parquet_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One value in the file may be that of many rows."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), pa.array(["x" * 1000]))
    pq.write_table(pa.table({"id": range(400), "right": [1] * 400, "text": text}), tmp_path / "a.parquet")
    assert len(read_logs(tmp_path / "a.parquet", LogOptions())) == 400
    monkeypatch.setattr("remedy.eval.report.logs.MOST_BYTES", 100_000)
    with pytest.raises(UserError, match="and at most 100,000 are read"):
        read_logs(tmp_path / "a.parquet", LogOptions())
    monkeypatch.setattr("remedy.eval.report.logs.MOST_ROWS", 399)
    with pytest.raises(UserError, match="has 400 rows, and at most 399 are read"):
        read_logs(tmp_path / "a.parquet", LogOptions())
