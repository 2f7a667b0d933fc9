"""What a sandboxed program may not do, noticed where Python does it (PEP 578 audit events), so that it is on record by name.

This names the operation and ends the program before it happens; limits and, where installed, bubblewrap hold whatever gets past.
The sandbox's server imports this module: it stays light.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_KINDS = {
    "os.fork": "process",
    "os.forkpty": "process",
    "os.exec": "process",
    "os.posix_spawn": "process",
    "os.spawn": "process",
    "os.system": "process",
    "os.startfile": "process",
    "os.kill": "process",
    "os.killpg": "process",
    "pty.spawn": "process",
    "resource.setrlimit": "process",
    "resource.prlimit": "process",
    "signal.pthread_kill": "process",
    "subprocess.Popen": "process",
    "_posixsubprocess.fork_exec": "process",
    "_thread.start_new_thread": "thread",
    "_thread.start_joinable_thread": "thread",
    "ctypes.dlsym": "native",
    "ctypes.dlsym/handle": "native",
    "ctypes.call_function": "native",
    "os.chflags": "files",
    "os.chmod": "files",
    "os.chown": "files",
    "os.link": "files",
    "os.mkdir": "files",
    "os.remove": "files",
    "os.removexattr": "files",
    "os.rename": "files",
    "os.rmdir": "files",
    "os.setxattr": "files",
    "os.symlink": "files",
    "os.truncate": "files",
    "os.utime": "files",
}
_DEEDS = {
    "process": "tried to start or signal a process, or to lift a limit",
    "thread": "tried to start a thread, whose lines no trace of the program would show",
    "network": "tried to use the network",
    "files": "tried to change a file outside its temporary folder",
    "native": "tried to call native code",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(folder: str, stop: Callable[[str, str], NoReturn]) -> None:
    """From now on, call `stop(kind, what was tried)` when this process is about to do what a program may not.

    `folder`, with no link in it, is where files may be written. An audit hook cannot be removed, so this is for a process
    that runs one program and ends.
    """
    realpath, separator, null = os.path.realpath, os.sep, os.devnull

    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return True  # a descriptor that is open already
        found = realpath(os.fsdecode(path))
        return found in (null, folder) or found.startswith(folder + separator)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not (isinstance(flags, int) and flags & _WRITING) or inside(path):
                return
            kind = "files"
        elif event in _KINDS:
            kind = _KINDS[event]
            if kind == "files" and all(inside(path) for path in _paths(event, arguments)):
                return
        elif event.startswith("socket."):
            kind = "network"
        else:
            return
        stop(kind, f"{_DEEDS[kind]} ({event})")

    def no_thread(*arguments: Any, **named: Any) -> NoReturn:
        stop("thread", _DEEDS["thread"])

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):  # before 3.12 it is no audit event
        if hasattr(_thread, name):
            setattr(_thread, name, no_thread)
    sys.addaudithook(hook)


def _paths(event: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The paths that an event's arguments name."""
    return (
        arguments[:2]
        if event in ("os.rename", "os.link")
        else arguments[1:2]
        if event == "os.symlink"
        else arguments[:1]
    )
