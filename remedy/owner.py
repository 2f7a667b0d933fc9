"""Folder locks (`flock`), so that one process alone writes.

A lock ends with its process, and on NFS holds between machines.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from remedy.files import writing
from remedy.messages import cut
from remedy.settings import UserError

FILE = ".owner"
LOCKLESS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
"""Errors of a file system without locks."""


@contextlib.contextmanager
def owned(folder: Path, part: str = "") -> Iterator[None]:
    """Lock a folder, or a `part` of the work in it, for one writer.

    Raises:
        UserError: another process holds it, or the file system has no locks.
        OSError: the folder cannot be made or written to.
    """
    path = folder / (FILE + part)
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    with writing(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        _acquire(lock, path)
    owner = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == owner:  # a fork that leaves this block owns nothing
            path.unlink(missing_ok=True)
            lock.release()
            if made:
                with contextlib.suppress(OSError):  # not empty: something was written
                    folder.rmdir()


def _acquire(lock: FileLock, path: Path) -> None:
    try:
        lock.acquire()
    except Timeout:
        holder = path.read_text(errors="replace") if path.exists() else ""
        raise UserError(
            f"{path.parent}: {holder[:1000] or 'another process'} is writing there: wait until it ends, or end it, or choose another "
            "folder"
        ) from None
    except OSError as error:
        if error.errno not in LOCKLESS:
            raise
        path.unlink()
        raise UserError(
            f"{path.parent}: its file system gives no lock ({error.strerror}), without which two processes could write there at "
            "once: choose a folder on a local disk, or have it mounted with locks (Lustre: mount -o flock)"
        ) from None
    command = cut(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), 200)
    path.write_text(f"process {os.getpid()} on {socket.gethostname()} ({command})", errors="replace")
