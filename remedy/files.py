"""Atomic writing, and bounded reading of files from strangers."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import psutil
from pydantic import AfterValidator

LONGEST_NAME = 100
"""Characters: file systems allow 255 bytes, and callers add to a name."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a disk without room."""
_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _not_empty(value: str) -> str:
    if not value.strip():
        raise ValueError(
            "must not be empty, which would mean the current folder: name a folder, or give . for this one"
        )
    return value


Folder = Annotated[str, AfterValidator(_not_empty)]
"""A setting that names a folder."""


def file_name(name: str) -> str:
    """Make a file name of at most 100 characters without shell syntax.

    `characters,seed=1` becomes `characters-seed-1`.
    """
    plain = re.sub(r"[^\w.+]+", "-", name).strip("-.")
    if len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[: LONGEST_NAME - 9]}-{zlib.crc32(name.encode()):08x}"


def readable(path: Path, most_bytes: int = 1 << 40) -> Path:
    """Return the path of a plain file.

    Raises:
        OSError: it is missing, a pipe or a device, or larger than `most_bytes`.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
        raise OSError(errno.EINVAL, f"is no plain file of at most {most_bytes:,} bytes, so it is not read", str(path))
    return path


def read_text(path: Path, most_bytes: int, encoding: str = "utf-8") -> str:
    """Read a plain file's text.

    Raises:
        OSError: as `readable`.
        UnicodeDecodeError: it is not in this encoding.
    """
    with readable(path, most_bytes).open(encoding=encoding) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # bounded: files of /proc claim 0 bytes, and some never end


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make the file under a hidden name, then move it into place.

    Raises:
        OSError: names `path`; an earlier file stays.
    """
    # In the same folder, since only a move within a file system is atomic. Host and process are for `clear_partials`.
    partial = path.with_name(f".{path.name[:40]}.{_HOST}.{os.getpid()}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(partial)
            os.replace(partial, path)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    replace_file(path, lambda partial: partial.write_text(text, encoding="utf-8"))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the block's OSErrors name `path`, not a hidden file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"cannot be written: {os.strerror(error.errno)}", str(path)) from None


def clear_partials(folder: Path) -> None:
    """Remove partial files of this machine's dead processes."""
    for path in folder.glob(".*.partial"):
        host, process = path.name.split(".")[-3:-1]
        if host == _HOST and not psutil.pid_exists(int(process)):
            path.unlink(missing_ok=True)
