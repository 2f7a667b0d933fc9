"""Kernel walls around a program: Landlock, seccomp, and a powerless user id.

The server prepares them once and tries them in a child; each child enters them before its program runs.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from remedy.data_gen.execution import kernel
from remedy.data_gen.execution.seccomp import for_process, native_filter

NOBODY = 65534
_READ_SEARCH = 1 << 2  # CAP_DAC_READ_SEARCH

# What Python and its libraries read beside the interpreter's own folders: the system's libraries, time zones, locales.
_SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64", "/usr/share/zoneinfo"),
    *("/usr/share/locale", "/usr/share/i18n", "/usr/share/terminfo", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/localtime", "/etc/mime.types", "/etc/os-release", "/dev/zero", "/dev/random", "/dev/urandom"),
)


class Identity(NamedTuple):
    """User id of a program's process, and the capabilities it keeps."""

    name: str
    user: int | None
    capabilities: int = 0


_ROOT = (
    Identity(f"uid {NOBODY}", NOBODY),
    # Where the interpreter is in a folder of root's only. Landlock limits what can be read.
    Identity(f"uid {NOBODY} and CAP_DAC_READ_SEARCH", NOBODY, _READ_SEARCH),
    Identity("uid 0 without capabilities", None),
)


class Walls:
    """Walls that work here, for programs in sub-folders of `base`.

    `namespaces`: the file system is the sandbox's own. `libraries`: what programs may read. `most`: Landlock's latest
    version to use.

    Raises:
        OSError: a program cannot run behind the walls, or there is neither Landlock nor a namespace.
    """

    def __init__(self, base: str, namespaces: bool, libraries: Sequence[str] = (), most: int = 99) -> None:
        self.abi = min(most, kernel.landlock_abi())
        self.rules = -1
        if self.abi:
            self.rules = kernel.ruleset(self.abi, kernel.all_rights(self.abi))
            for path in readable(base, libraries):
                kernel.allow(self.rules, path, kernel.READING)
            kernel.allow(self.rules, base, kernel.READING | kernel.writing(self.abi))
            kernel.allow(self.rules, os.devnull, kernel.READ_FILE | kernel.WRITE_FILE | kernel.truncation(self.abi))
        elif not namespaces:
            raise OSError("this kernel has no Landlock, or has it switched off")
        else:
            kernel.control(*kernel.HIDE)
        problems = []
        for identity in _ROOT if os.geteuid() == 0 else (Identity(f"uid {os.geteuid()}", None),):
            if identity.capabilities and not self.abi:
                continue
            self._take(identity, namespaces)
            problem = self._problem(base)
            if not problem:
                return
            problems.append(f"{identity.name}: {problem}")
        raise OSError("; ".join(problems))

    def _take(self, identity: Identity, namespaces: bool) -> None:
        self.identity = identity
        self.metadata = namespaces and (identity.user is not None or os.geteuid() != 0)
        """Whether modes, owners and times may be changed: only if all else is read-only or another user's."""
        self.filter = native_filter(self.metadata, truncate=self.abi >= 3 or namespaces)

    @property
    def holds(self) -> list[str]:
        landlock = [f"Landlock ABI {self.abi}"] if self.abi else []
        return [*landlock, "seccomp" if self.filter else "no seccomp on this architecture", self.identity.name]

    def give(self, folder: str) -> None:
        if self.identity.user is not None:
            os.chown(folder, self.identity.user, self.identity.user)

    def enter(self) -> None:
        """Restrict this process for good: its working folder, system calls and user."""
        server = os.getppid()
        kernel.control(*kernel.NO_NEW_PRIVILEGES)
        if self.abi:
            kernel.restrict(self.abi, self.rules)
            # A second layer, since the first was made before the folder was.
            reading = kernel.EXECUTE | kernel.READ_FILE | kernel.READ_DIR | kernel.IOCTL_DEV
            own = kernel.ruleset(self.abi, kernel.all_rights(self.abi) & ~reading)
            kernel.allow(own, ".", kernel.writing(self.abi) & ~reading)
            kernel.allow(own, os.devnull, kernel.WRITE_FILE | kernel.truncation(self.abi))
            kernel.restrict(self.abi, own)
            os.close(own)
        kernel.become(self.identity.user, self.identity.capabilities)
        kernel.control(*kernel.DIE_WITH_PARENT)
        if os.getppid() != server:
            os._exit(1)
        if self.filter is not None:
            kernel.install_filter(for_process(self.filter, os.getpid()))

    def _problem(self, base: str) -> str:
        folder = os.path.join(base, "tried")
        os.mkdir(folder)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._try(folder, base, writer)
        os.close(writer)
        message = b""
        while part := os.read(reader, 4096):
            message += part
        os.close(reader)
        _, status = os.waitpid(child, 0)
        os.rmdir(folder)
        return message.decode() or ("" if status == 0 else f"ended with status {status}")

    def _try(self, folder: str, base: str, writer: int) -> NoReturn:
        step = "the walls"
        try:
            self.give(folder)
            os.chdir(folder)
            self.enter()
            step = "its own folder"
            path = os.path.join(folder, "file")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            os.remove(path)
            step = "the interpreter's files"
            os.listdir(os.path.dirname(os.__file__))
            os.close(os.open(os.__file__, os.O_RDONLY))
            step = "held nothing"
            if self.abi:
                _refused(lambda: os.listdir("/"))
                _refused(lambda: os.mkdir(os.path.join(base, "outside")))
            if self.filter is not None:
                _refused(os.fork)
            step = ""
        except BaseException as error:
            os.write(writer, f"{step}: {error}".encode())
        finally:
            os._exit(0 if not step else 1)


def _refused(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        return
    raise RuntimeError("a wall stands open")


def readable(base: str, more: Sequence[str] = ()) -> list[str]:
    """List what a program may read: libraries, what they need, and `more`.

    Folders above the user's or `base` are left out.
    """
    libraries = os.path.dirname(os.__file__)
    package_folders = ("site-packages", "dist-packages", "lib-dynload")
    packages = [*site.getsitepackages(), *(path for path in sys.path if os.path.basename(path) in package_folders)]
    linked = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if os.path.isabs(path)]
    own = [libraries, *packages, os.path.realpath(sys.executable), os.path.join(sys.prefix, "pyvenv.cfg")]
    shared = [os.path.join(sys.base_prefix, "lib"), *linked]
    home = os.path.realpath(os.path.expanduser("~"))
    private = [os.path.join(path, "") for path in (home, os.path.realpath(base))]
    return [
        path
        for path in dict.fromkeys(map(os.path.realpath, (*_SYSTEM, *own, *shared, *more)))
        if not any(folder.startswith(os.path.join(path, "")) for folder in private)
    ]
