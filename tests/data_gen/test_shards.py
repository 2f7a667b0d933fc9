"""Shards are a cache of the example function: the same bytes from any number of workers, whole or not there."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from remedy.checksums import DamagedFile, digest_of, write_table
from remedy.data_gen.shards import Shard, read_manifest, read_shard, shards_of
from remedy.launch.generate import generate as run_generate
from remedy.settings import UserError
from tests.launch.in_process import remedy

CONFIG = {
    "data": {"task": {"kind": "composition", "depth": [1, 2]}, "reveal": {"locals": "diff"}},
    "tokenizer": {"kind": "chars"},
    "write": {"splits": {"train": 50, "test": 11}, "shard_size": 10},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "data.yaml"
    path.write_text(yaml.safe_dump(CONFIG))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "data").iterdir())}


def test_shards_open_as_a_hugging_face_data_set_with_a_card(config: Path, tmp_path: Path) -> None:
    import datasets

    out = tmp_path / "out"
    run_generate(str(config), [], out, "0/1", 1)
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 50, "test": 11}
    row = loaded["train"][7]
    assert row["index"] == 7
    assert len(row["input_ids"]) == len(row["roles"]) == len(row["frames"])
    assert row["outcome"] == "ok"
    tokens = sum(len(r["input_ids"]) for r in loaded["test"])
    assert f"| test | 11 | {tokens:,} |" in (out / "README.md").read_text()


@pytest.mark.slow
def test_parts_and_workers_give_the_same_bytes_as_one_process(config: Path, tmp_path: Path) -> None:
    one, parts, many = (tmp_path / name for name in ("one", "parts", "many"))
    run_generate(str(config), [], one, "0/1", 1)
    for part in ("1/3", "0/3", "2/3"):
        run_generate(str(config), [], parts, part, 1)
    assert remedy(["generate", config, "--out", many, "--workers", 2]).status == 0
    assert contents(one) == contents(parts) == contents(many)
    assert (one / "README.md").read_text() == (parts / "README.md").read_text()


def test_another_configuration_is_refused(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_generate(str(config), [], out, "0/1", 1)
    kept = contents(out)
    refused = remedy(["generate", config, "data.seed=1", "--out", out])
    assert refused.status == 2
    assert "shards of another data set (it differs in data): give --overwrite to replace them" in refused.errors
    assert contents(out) == kept
    assert remedy(["generate", config, "data.seed=1", "--out", out, "--overwrite"]).status == 0
    assert contents(out).keys() == kept.keys()
    assert contents(out) != kept


def test_damaged_shards_are_named_when_they_are_read_and_made_good_by_generate(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    run_generate(str(config), [], out, "0/1", 1)
    kept, data_set = contents(out), digest_of(read_manifest(out))
    shards = {shard.name: shard for shard in shards_of(read_manifest(out))}
    names = [f"train-0000{number}-of-00005.parquet" for number in range(5)]
    flipped = bytearray(kept[names[2]])
    flipped[len(flipped) // 3] ^= 1
    damage = {names[0]: kept[names[1]], names[2]: bytes(flipped), names[3]: b"", names[4]: kept[names[4]][:-9]}
    for name, content in damage.items():
        (out / "data" / name).write_bytes(content)
        with pytest.raises(DamagedFile, match=rf"{name}: (is damaged|belongs to).*run `remedy generate` again"):
            read_shard(out, shards[name], data_set)
    run_generate(str(config), [], out, "0/1", 1)
    assert contents(out) == kept
    assert caplog.text.count("made again") == len(damage)


def test_shards_of_another_data_set_are_neither_used_nor_overwritten(config: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    run_generate(str(config), [], out, "0/1", 1)
    run_generate(str(config), ["data.seed=1"], other, "0/1", 1)
    kept = contents(other)
    (other / "manifest.json").unlink()
    with pytest.raises(UserError, match="shards of another data set"):
        run_generate(str(config), [], other, "0/1", 1)
    assert contents(other) == kept
    shard = Shard("train", 1, 5, 10, 20)
    (out / "data" / shard.name).write_bytes(kept[shard.name])
    with pytest.raises(DamagedFile, match="belongs to something else"):
        read_shard(out, shard, digest_of(read_manifest(out)))


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b"5"])
def test_a_damaged_manifest_is_one_line_and_costs_no_shard(content: bytes, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_generate(str(config), [], out, "0/1", 1)
    kept = {path: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    (out / "manifest.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=r"manifest\.json: is damaged") as found:
        run_generate(str(config), [], out, "0/1", 1)
    assert len(str(found.value).splitlines()) == 1
    (out / "manifest.json").unlink()
    run_generate(str(config), [], out, "0/1", 1)
    assert {path: path.stat().st_mtime_ns for path in (out / "data").iterdir()} == kept


def test_a_shard_of_other_columns_rows_sizes_or_tokens_is_refused_before_it_is_used(
    config: Path, tmp_path: Path
) -> None:
    out, shard = tmp_path / "out", Shard("test", 0, 1, 0, 4)
    run_generate(str(config), ["write.splits={test: 4}"], out, "0/1", 1)
    path, data_set = out / "data" / shard.name, digest_of(read_manifest(out))
    table = pq.ParquetFile(path).read()
    for column, values, says in (
        ("outcome", pa.nulls(4), r"column 'outcome' is null, not string"),
        ("depth", pa.array([b"x"] * 4), r"column 'depth' is binary, not string or int64"),
        ("frames", None, r"column 'frames' is missing, not list"),
        ("frames", pa.nulls(4, table["frames"].type), r"column 'frames' has nulls"),
        ("frames", pa.array([[1]] * 4, table["frames"].type), r"column 'frames' has not as many values"),
        ("roles", pa.array([[99] * len(one) for one in table["roles"]], pa.list_(pa.int8())), r"unknown roles"),
    ):
        at = table.column_names.index(column)
        odd = table.remove_column(at) if values is None else table.set_column(at, column, values)
        write_table(path, odd, data_set)
        with pytest.raises(DamagedFile, match=says):
            read_shard(out, shard, data_set)
    write_table(path, table.slice(1), data_set)
    with pytest.raises(DamagedFile, match="it has 3 rows, not 4"):
        read_shard(out, shard, data_set, [])
    large = table.set_column(3, "answer", pa.array(["x" * (1 << 26)]).dictionary_encode().take(pa.array([0] * 4)))
    pq.write_table(large, path, store_schema=False)  # as text, which stands there once
    with pytest.raises(DamagedFile, match=r"it would take 67,\d{3},\d{3} bytes, too many for 4 examples"):
        read_shard(out, shard, data_set)
