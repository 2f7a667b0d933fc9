"""Files of strangers are read only where they are files, and small."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from remedy.files import read_text


def test_a_small_text_is_read_and_nothing_else_is(tmp_path: Path) -> None:
    small, sparse, pipe, device = (tmp_path / name for name in ("small", "sparse", "pipe", "device"))
    small.write_text("é, f", encoding="utf-8-sig")
    sparse.touch()
    os.truncate(sparse, 12 << 30)
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    assert read_text(small, 8, "utf-8-sig") == "é, f"
    for path in (small, sparse, pipe, device):
        with pytest.raises(OSError, match=f"is no plain file of at most 7 bytes, so it is not read: '{path}'"):
            read_text(path, 7)
    with pytest.raises(OSError, match="is no plain file"):
        read_text(tmp_path, 7)
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "nowhere", 7)


def test_neither_a_socket_nor_a_file_without_a_size_is_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="is no plain file"):
            read_text(tmp_path / "socket", 7)
    if (status := Path("/proc/self/status")).exists():
        assert read_text(status, 1 << 20) == ""
