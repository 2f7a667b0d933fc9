"""Write files so that they appear whole or not at all; what the system refuses is one line that names the file."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from remedy.data_gen.settings import UserError

_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room and run the same command again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a folder that may be written to"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.EISDIR), "move away what is in its place, or choose another"),
    errno.ENAMETOOLONG: "choose a shorter name",
}


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make the file under a hidden name, then move it into place; its folder is made if there is none.

    Raises:
        UserError: it cannot be written; what was there before still is.
    """
    # Of the name only so much that the hidden one is not too long where the name itself is not.
    partial = path.with_name(
        f".{path.name[:40]}.{zlib.crc32(os.fsencode(path.name)):08x}.{_HOST}.{os.getpid()}.partial"
    )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # of a killed process that had this number
        try:
            write(partial)
            os.replace(partial, path)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system refuses while `path` is written (no space, no permission, ...) into a line with what to do."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error).splitlines()[0]
        cure = _CURES.get(error.errno or 0, "see that its folder can be written to")
        raise UserError(f"{path}: cannot be written ({reason}): {cure}") from None


def clear_partials(folder: Path) -> None:
    """Remove what processes of this machine that are no longer alive were writing into a folder."""
    for path in folder.glob(".*.partial"):
        host, process = path.name.split(".")[-3:-1]
        if host == _HOST and process.isdecimal() and not psutil.pid_exists(int(process)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
