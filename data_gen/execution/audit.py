"""Audit hook (PEP 578) that ends a program before it does something forbidden.

It is no wall: what gets past it meets `walls`.
"""

from __future__ import annotations

import _thread
import os
import posix
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_FORBIDDEN = {
    "process": "os.fork os.forkpty os.exec os.posix_spawn os.spawn os.system os.startfile os.kill os.killpg pty.spawn "
    "resource.setrlimit resource.prlimit signal.pthread_kill subprocess.Popen _posixsubprocess.fork_exec",
    "thread": "_thread.start_new_thread _thread.start_joinable_thread",
    "native": "ctypes.dlopen ctypes.dlsym ctypes.dlsym/handle ctypes.call_function",
}
_KINDS = {event: kind for kind, events in _FORBIDDEN.items() for event in events.split()}
# Where an event's arguments name a path, the descriptor of the folder that the path is relative to, and whether the path's own
# last part is followed where it is a link.
_PATHS: dict[str, tuple[tuple[int, int | None, bool], ...]] = {
    **dict.fromkeys(
        ("os.chflags", "os.removexattr", "os.setxattr", "os.truncate", "sqlite3.connect"), ((0, None, True),)
    ),
    "os.chmod": ((0, 2, True),),
    **dict.fromkeys(("os.chown", "os.utime"), ((0, 3, True),)),
    **dict.fromkeys(("os.link", "os.rename"), ((0, 2, False), (1, 3, False))),
    "os.mkdir": ((0, 2, False),),
    **dict.fromkeys(("os.remove", "os.rmdir"), ((0, 1, False),)),
    "os.symlink": ((1, 2, False),),
}
_METADATA = frozenset({"os.chmod", "os.chown", "os.utime"})
_DEEDS = {
    "process": "tried to start or signal a process, or to lift a limit",
    "thread": "tried to start a thread, whose lines no trace of the program would show",
    "network": "tried to use the network",
    "files": "tried to change a file outside its temporary folder",
    "native": "tried to call native code",
}
# Functions that raise no audit event, or not in every version.
_SILENT = {
    "thread": ((_thread, ("start_new_thread", "start_new", "start_joinable_thread")),),
    "process": (
        (os, ("pidfd_open", "setns", "unshare")),
        (posix, ("pidfd_open", "setns", "unshare")),
        (signal, ("pidfd_send_signal",)),
        (sys.modules["_signal"], ("pidfd_send_signal",)),
    ),
    "files": ((os, ("mkfifo", "mknod")), (posix, ("mkfifo", "mknod"))),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_AF_UNIX = 1


def install(folder: str, stop: Callable[[str, str], NoReturn], metadata: bool = True) -> None:
    """Call `stop(kind, message)` when this process is about to do something forbidden.

    `folder`: where files may be written. `metadata`: modes and times may be changed there. The hook stays until the process
    ends.
    """
    # All that the hook needs is bound here: a program that replaces what modules hold must not switch it off.
    inside = _inside(folder)
    kinds, paths, deeds, writing, changes = dict(_KINDS), dict(_PATHS), dict(_DEEDS), _WRITING, _METADATA
    every, exact_type, integer = all, type, int

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if exact_type(flags) is not integer or not flags & writing or inside(path, None, True):
                return
            kind = "files"
        elif event in paths:
            paths_named = [
                (arguments[position], None if folder_position is None else arguments[folder_position], follow)
                for position, folder_position, follow in paths[event]
            ]
            if every([inside(*name) for name in paths_named]) and (metadata or event not in changes):
                return
            kind = "files"
        elif event in kinds:
            kind = kinds[event]
        elif event[:7] == "socket.":
            if event == "socket.__new__" and arguments[1] == _AF_UNIX:
                return  # half of a pair, which asyncio makes, is no network; connecting one is another event
            kind = "network"
        else:
            return
        stop(kind, f"{deeds[kind]} ({event})")

    for kind, modules in _SILENT.items():
        for module, names in modules:
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, _refusal(kind, f"{_DEEDS[kind]} ({name})", stop))
    _guard_open(inside, lambda: stop("files", f"{_DEEDS['files']} (open)"))
    sys.addaudithook(hook)


def _refusal(kind: str, message: str, stop: Callable[[str, str], NoReturn]) -> Callable[..., NoReturn]:
    def refuse(*arguments: Any, **keywords: Any) -> NoReturn:
        stop(kind, message)

    return refuse


def _guard_open(inside: Callable[[Any, Any, bool], bool], stop: Callable[[], NoReturn]) -> None:
    """Make `os.open` check `dir_fd`, which its audit event lacks."""
    opened, writing = posix.open, _WRITING

    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None and flags & writing and not inside(path, dir_fd, True):
            stop()
        return opened(path, flags, mode, dir_fd=dir_fd)

    for module in (os, posix):
        module.__dict__["open"] = open


def _inside(folder: str) -> Callable[[Any, Any, bool], bool]:
    """Make a check of whether a path leads into `folder`.

    A path is relative to a folder's descriptor or the working folder.
    """
    # Folders are compared by device and inode: a text comparison would miss links and `..`.
    stat, readlink, null = os.stat, os.readlink, os.devnull
    exact_type, text_of, is_a, integer = type, str, isinstance, int
    home = stat(folder)
    known_folders = {(home.st_dev, home.st_ino)}

    def below(path: str, folder_descriptor: int | None) -> bool:
        while True:
            try:
                status = stat(path, dir_fd=folder_descriptor)
                break
            except OSError:
                if path in (".", "/"):
                    return False
                path = path.rpartition("/")[0] or ("/" if path[:1] == "/" else ".")
        passed, inode = [], (status.st_dev, status.st_ino)
        while inode not in known_folders:
            passed.append(inode)
            path += "/.."
            try:
                status = stat(path, dir_fd=folder_descriptor)
            except OSError:
                return False
            inode = (status.st_dev, status.st_ino)
            if inode == passed[-1]:
                return False
        known_folders.update(passed)
        return True

    def same(path: str, folder_descriptor: int | None) -> bool:
        """Say if a path is the folder itself, where O_TMPFILE opens a nameless file."""
        try:
            status = stat(path, dir_fd=folder_descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) in known_folders

    def inside(path: Any, folder_descriptor: Any, follow: bool) -> bool:
        if exact_type(path) is integer:
            return True  # a descriptor that is open already
        if not is_a(path, (text_of, bytes)):
            path = exact_type(path).__fspath__(path)
        text = path.decode("utf-8", "surrogateescape") if is_a(path, bytes) else text_of(path)
        folder_descriptor = None if folder_descriptor == -1 else folder_descriptor
        for _ in range(40):  # as many links as the kernel follows
            if text in (null, ":memory:", ""):
                return True
            text = text.rstrip("/") or "/"
            parent, slash, name = text.rpartition("/")
            if name in ("..", ".", ""):
                return below(text, folder_descriptor)
            parent = (parent or slash) or "."
            if not follow:
                return below(parent, folder_descriptor)
            try:
                target = readlink(text, dir_fd=folder_descriptor)
            except OSError:
                return below(parent, folder_descriptor) or same(text, folder_descriptor)
            text = target if target[:1] == "/" else f"{parent}/{target}"
        return False

    return inside
