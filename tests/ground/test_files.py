"""Files of strangers are read only where they are files, and small."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from remedy.files import read_text


def test_a_small_text_is_read_and_nothing_else_is(tmp_path: Path) -> None:
    small, sparse, pipe, device = (tmp_path / name for name in ("small", "sparse", "pipe", "device"))
    small.write_text("é, five bytes"[:4], encoding="utf-8-sig")
    sparse.touch()
    os.truncate(sparse, 12 << 30)
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    assert read_text(small, 8, "utf-8-sig") == "é, f"
    for path, why in ((small, "over 7 bytes"), (sparse, "over 7 bytes"), (pipe, "a pipe"), (device, "a device")):
        with pytest.raises(OSError, match=f"^{path}: is not read: .*{why}"):
            read_text(path, 7)
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path, 7)


def test_neither_a_socket_nor_a_file_without_a_size_is_read_past_its_bound(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="socket"):
            read_text(tmp_path / "socket", 7)
    if (status := Path("/proc/self/status")).exists():  # says that it has no bytes
        assert "Name:" in read_text(status, 1 << 20)
        with pytest.raises(OSError, match="over 100 bytes"):
            read_text(status, 100)
