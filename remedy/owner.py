"""Locks on folders, so that one process alone writes into each.

The system's (`flock`): a lock ends with its process, however that ends, and on NFS holds between machines.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from remedy.files import writing
from remedy.messages import cut
from remedy.settings import UserError

FILE = ".owner"
_held: set[int] = set()
"""Descriptors of the files that this process has locked."""


@contextlib.contextmanager
def owned(folder: Path, part: str = "") -> Iterator[None]:
    """Hold a folder, or a `part` of the work in it, as its only writer.

    Raises:
        UserError: another process holds it, or its file system has no locks.
        OSError: it cannot be made or written to.
    """
    path = folder / (FILE + part)
    with writing(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(path)
    _held.add(descriptor)
    owner = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == owner:  # a fork that leaves this block owns nothing
            path.unlink(missing_ok=True)
            _held.discard(descriptor)
            os.close(descriptor)
            if made:
                with contextlib.suppress(OSError):  # not empty: something was written
                    folder.rmdir()


def _locked(path: Path) -> int:
    """Open and lock the file, and write this process's name into it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(descriptor, 1000).decode(errors="replace") or "another process"
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            path.unlink()
            raise UserError(
                f"{path.parent}: its file system gives no lock ({error.strerror}), without which two processes could write there at "
                "once: choose a folder on a local disk, or have it mounted with locks (Lustre: mount -o flock)"
            ) from None
        raise UserError(
            f"{path.parent}: {holder} is writing there: wait until it ends, or end it, or choose another folder"
        ) from None
    if not (path.exists() and os.path.samestat(os.stat(path), os.fstat(descriptor))):
        os.close(descriptor)  # its owner removed the file between open and flock
        return _locked(path)
    os.ftruncate(descriptor, 0)
    command = cut(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), 200)
    os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()} ({command})".encode(errors="replace"))
    return descriptor


def _release_in_fork() -> None:
    # A lock lasts while any fork has its descriptor open: a child would keep the folder of a killed parent.
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_release_in_fork)
