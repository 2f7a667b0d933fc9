"""One owner a folder: a process that writes into a folder holds it, and a second one is refused with who that is.

The lock is the system's (`flock` on a file in the folder), so that it ends with its process, however that ends. On NFS it holds between
machines too.
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
    """Hold a folder, which is made if there is none, as the only process that writes into it. `part`: of work that several processes
    do in one folder, which part; each is held for itself.

    Raises:
        UserError: another process holds it, or its file system has no locks.
        OSError: the folder cannot be made or written to.
    """
    path = folder / (FILE + part)
    with writing(folder):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        number = _locked(path)
    _held.add(number)
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == process:  # a fork of it that ends owns nothing
            path.unlink(missing_ok=True)
            _held.discard(number)
            os.close(number)
            if made:
                with contextlib.suppress(OSError):  # something was written
                    folder.rmdir()


def _locked(path: Path) -> int:
    """A descriptor of the file, locked, with this process's name in it."""
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(number, 1000).decode(errors="replace") or "another process"
        os.close(number)
        if not isinstance(error, BlockingIOError):
            path.unlink()
            raise UserError(
                f"{path.parent}: its file system gives no lock ({error.strerror}), without which two processes could write there at "
                "once: choose a folder on a local disk, or have it mounted with locks (Lustre: mount -o flock)"
            ) from None
        raise UserError(
            f"{path.parent}: {holder} is writing there: wait until it ends, or end it, or choose another folder"
        ) from None
    if not (path.exists() and os.path.samestat(os.stat(path), os.fstat(number))):
        os.close(number)  # its owner ended, and took the file away, between the two calls
        return _locked(path)
    os.ftruncate(number, 0)
    words = cut(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]), 200)
    os.write(number, f"process {os.getpid()} on {socket.gethostname()} ({words})".encode(errors="replace"))
    return number


def _let_go() -> None:
    """A fork holds nothing: else it would keep the folder of a parent that was killed."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)
