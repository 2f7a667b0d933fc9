"""One owner a folder, for as long as its process lives; and a worker that is killed is one line."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remedy.owner import owned
from remedy.processes import worker_pool
from remedy.settings import UserError

HOLDS = """
import os, sys, time
from pathlib import Path
from remedy.owner import owned
with owned(Path(sys.argv[1])):
    if not os.fork():
        print(flush=True)  # the fork has let go
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_ends_however_it_does(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        with (
            pytest.raises(UserError, match=rf"out: process {holder.pid} on .* is writing there: wait until it"),
            owned(folder),
        ):
            pass
        with owned(folder, "-1-of-2"):  # a part is held for itself
            pass
        holder.kill()
        holder.wait()
        with owned(folder):  # whatever it left, and though a fork of it lives
            assert f"process {os.getpid()} on " in (folder / ".owner").read_text()
            with pytest.raises(UserError, match="is writing there"), owned(folder):
                pass
        assert list(folder.iterdir()) == []
    finally:
        os.killpg(holder.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks_is_said(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    says = rf"{tmp_path}: its file system gives no lock \({os.strerror(number)}\), .*\(Lustre: mount -o flock\)$"
    with pytest.raises(UserError, match=says), owned(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_in_which_nothing_was_written_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(UserError), owned(tmp_path / "a" / "b"):
        raise UserError("refused")
    assert not (tmp_path / "a" / "b").exists()
    with owned(tmp_path / "c"):
        (tmp_path / "c" / "kept").touch()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["kept"]


def test_a_worker_that_is_killed_is_one_line_and_the_others_end() -> None:
    says = r"^a worker process was killed, .*fewer --workers; it goes on with what is not written yet$"
    with pytest.raises(UserError, match=says), worker_pool(2, time.sleep, 0) as pool:
        pool.submit(os._exit, 1).result()
