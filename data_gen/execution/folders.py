"""Removal and size of folders that programs write in, at any depth and modes."""

from __future__ import annotations

import errno
import os
import stat

MOST_BYTES, MOST_FILES = 100_000_000, 10_000


def remove(top: str) -> None:
    """Remove a file, link or folder; leave what cannot be removed, without an error."""
    try:
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            os.unlink(top)
            return
        secret = os.urandom(8).hex()  # a name that the program has not taken
        waiting = _folders_after_emptying(top)
        moved = 0
        while waiting:
            folder = waiting.pop()
            # Inner folders move up first: else a path, or recursion, could become too deep.
            for inner in _folders_after_emptying(folder):
                moved += 1
                os.rename(inner, moved_path := os.path.join(top, f"remedy-{moved}-{secret}"))
                waiting.append(moved_path)
            os.rmdir(folder)
        os.rmdir(top)
    except OSError:
        return


def _folders_after_emptying(folder: str) -> list[str]:
    os.chmod(folder, 0o700)
    inner = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                inner.append(entry.path)
            else:
                os.unlink(entry.path)
    return inner


def too_much(top: str) -> bool:
    """Say if a folder exceeds `MOST_BYTES` or `MOST_FILES`, or cannot be counted."""
    files, size, waiting = 0, 0, [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    size += _size(entry)
                    if files > MOST_FILES or size > MOST_BYTES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM):
                return True
    return False


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return 512 * entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:  # removed meanwhile, which must not keep the rest of its folder from being counted
        return 0
