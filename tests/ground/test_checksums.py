"""A sealed file is read as it was written, under its own name, or refused; any reader of Parquet opens a sealed table."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from remedy.checksums import DamagedFile, read_json, read_table, write_json, write_table


def test_an_object_is_read_as_json_writes_it_and_under_its_own_name_only(tmp_path: Path) -> None:
    content = {"a": [1, 0.1, None, "\u00e9"], "b": {"c": (True, float("inf"))}}
    write_json(tmp_path / "x.json", content)
    assert read_json(tmp_path / "x.json", "") == {"a": [1, 0.1, None, "\u00e9"], "b": {"c": [True, float("inf")]}}
    (tmp_path / "x.json").rename(tmp_path / "y.json")
    with pytest.raises(DamagedFile, match=r"y\.json: is damaged.*: do this"):
        read_json(tmp_path / "y.json", "do this")


def test_a_rename_that_fails_leaves_what_was_there_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})

    def stale(*paths: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle", *map(str, paths))

    monkeypatch.setattr(os, "replace", stale)
    with pytest.raises(OSError, match=rf"Stale file handle: '{path}'$"):
        write_json(path, {"a": 2})
    assert read_json(path, "") == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_is_read_whole_under_its_own_name_as_its_owners_or_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"a": range(300), "b": ["x", "", None] * 100})
    write_table(path, table, "owner")
    assert read_table(path, "", "owner").equals(table)
    assert pq.read_table(path).equals(table)
    assert read_table(path, "", "owner", ["b"]).column_names == ["b"]
    assert read_table(path, "", "owner", []).num_rows == 300
    with pytest.raises(DamagedFile, match="belongs to something else"):
        read_table(path, "", "other")
    content = path.read_bytes()
    (tmp_path / "y.parquet").write_bytes(content)
    with pytest.raises(DamagedFile, match=r"y\.parquet: belongs to something else .* or to another name: do this"):
        read_table(tmp_path / "y.parquet", "do this", "owner")
    for place in range(0, len(content), 23):
        path.write_bytes(content[:place])
        with pytest.raises(DamagedFile, match=r"x\.parquet: is damaged"):
            read_table(path, "", "owner")
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in range(0, end, 23):  # flips of the footer may pass
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with contextlib.suppress(DamagedFile):
            assert read_table(path, "", "owner").equals(table)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted on Linux")
def test_a_table_with_a_hole_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_table(path, pa.table({"a": [1]}), "owner")
    os.truncate(path, 12 << 30)
    with pytest.raises(DamagedFile, match=r"x\.parquet: is damaged"):
        read_table(path, "", "owner")


def test_no_thread_is_left_that_holds_what_was_read(tmp_path: Path) -> None:
    # One that lets go of it while the interpreter ends aborts the process: 7 of 80 runs of `generate` on two busy cores did.
    path = tmp_path / "some.parquet"
    write_table(path, pa.table({"a": range(1000), "b": ["word"] * 1000}), "owner")
    asked = (
        "import os, sys; from pathlib import Path; from remedy.checksums import read_table\n"
        "before = set(os.listdir('/proc/self/task')); read_table(Path(sys.argv[1]), '')\n"
        "print(len(set(os.listdir('/proc/self/task')) - before))"
    )
    found = subprocess.run([sys.executable, "-c", asked, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"
