"""Interpreter, isolation and command line of the sandbox's server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from remedy.processes import ask
from remedy.settings import ConfigError

Isolation = Literal["auto", "bubblewrap", "landlock", "none", "trusted"]

# The server needs a few modules of this package and nothing that is installed, so any interpreter can run it.
_SERVE = """
import sys, types
for name, path in (("remedy", []), ("remedy.data_gen", []), ("remedy.data_gen.execution", [sys.argv[1]])):
    module = types.ModuleType(name)
    module.__path__ = path
    sys.modules[name] = module
sys.path = [path for path in sys.path if path]
from remedy.data_gen.execution.server import serve
serve(*sys.argv[2:])
"""


def server_command(python: str | None, isolation: Isolation, folder: str, libraries: Sequence[str] = ()) -> list[str]:
    """Return the command that starts a sandbox's server.

    `folder`: where programs run. `libraries`: folders or files that they may read.

    Raises:
        ConfigError: the interpreter does not exist, or the isolation does not work here.
    """
    package = str(Path(__file__).resolve().parent)
    interpreter = find_interpreter(python)
    name = resolve(isolation)
    # Not `-I`, which would leave out PYTHONHASHSEED: it starts in an empty folder, with variables that `environment` names.
    command = [interpreter.path, "-s", "-c", _SERVE, package, folder, name, *libraries]
    if name != "bubblewrap":
        return command
    # Nothing else can be written, Landlock or not: the next program would find it, and root's settings are in /proc.
    closed = [part for path in ("/tmp", "/dev", "/proc", "/") for part in ("--remount-ro", path)]
    read = [part for path in libraries for part in ("--ro-bind", path, path)]
    walls = [*_bubblewrap(interpreter, package), *read, "--bind", folder, folder, *closed, "--chdir", folder]
    return [*walls, "--", *command]


class Interpreter(NamedTuple):
    """Python interpreter and the folders of its libraries."""

    path: str
    prefix: str
    base_prefix: str


@lru_cache(maxsize=8)
def find_interpreter(python: str | None) -> Interpreter:
    """Find the interpreter of the programs, by default this one.

    Raises:
        ConfigError: it does not exist or is no Python.
    """
    if python is None:
        return Interpreter(sys.executable, sys.prefix, sys.base_prefix)
    path = shutil.which(os.path.expanduser(python))
    if path is None:
        raise ConfigError(
            f"task.tracer.python: no interpreter {python!r}; give its path, or a name on PATH such as python3.12"
        )
    answer = ask(os.path.abspath(path), "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep='\\n')")
    return Interpreter(*answer.split("\n")[:3])


def resolve(isolation: Isolation) -> str:
    """Replace `auto` by the strongest isolation that works here.

    Raises:
        ConfigError: the named isolation does not work here, or none does.
    """
    if isolation in PROBLEMS and (problem := PROBLEMS[isolation]()):
        raise ConfigError(f"task.tracer.isolation {isolation}: {problem}; {WAY_OUT}")
    if isolation != "auto":
        return isolation
    problems = []
    for name, why in PROBLEMS.items():
        if not (problem := why()):
            return name
        problems.append(problem)
    raise ConfigError(
        f"task.tracer.isolation auto: nothing here walls untrusted programs in ({'; '.join(problems)}); {WAY_OUT}"
    )


def described(name: str, holds: Sequence[str]) -> str:
    """Name an isolation as in records: `landlock (ABI 7, seccomp, uid 65534)`."""
    if name == "none":
        return "none (limits on time and memory, no wall)"
    holds = [part.removeprefix("Landlock ") if name == "landlock" else part for part in holds]
    return f"{name} ({', '.join(holds or ['namespaces alone'])})"


def environment(folder: str) -> dict[str, str]:
    """Return the server's environment variables, without the caller's own."""
    inherited = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **inherited,
        "TMPDIR": os.path.join(folder, "program"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",  # sets of strings have one order in all runs
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


@lru_cache(maxsize=1)
def _bubblewrap_problem() -> str:
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    problems = [_try_bubblewrap(namespaces) for namespaces in _namespaces()]
    return "" if "" in problems else f"bwrap does not start ({problems[-1]})"


@lru_cache(maxsize=4)
def _try_bubblewrap(namespaces: str) -> str:
    interpreter, package = find_interpreter(None), str(Path(__file__).resolve().parent)
    command = [*_bubblewrap(interpreter, package, namespaces), "--", interpreter.path, "-I", "-S", "-c", ""]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if completed.returncode == 0 else completed.stderr.strip() or f"exit status {completed.returncode}"


def _landlock_problem() -> str:
    try:
        from remedy.data_gen.execution import kernel

        works = kernel.landlock_abi()
        return "" if works else "this kernel has no Landlock (Linux 5.13 and later), or has it switched off"
    except (ImportError, AttributeError, OSError):  # no ctypes, or a C library that is none of Linux's
        return "this system has no Landlock (Linux 5.13 and later)"


PROBLEMS: dict[str, Callable[[], str]] = {"bubblewrap": _bubblewrap_problem, "landlock": _landlock_problem}
"""Isolations with walls, the strongest first, each with a check that says why it does not work here."""

WAY_OUT = "install bubblewrap, or accept with `isolation: none` that a program can do all that you can"


def _namespaces() -> tuple[str, ...]:
    # Root needs no user namespace, in which it could not become another user.
    everything = "--unshare-all"
    own_namespaces = "--unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try"
    return (own_namespaces, everything) if os.geteuid() == 0 else (everything,)


def _bubblewrap(interpreter: Interpreter, package: str, namespaces: str | None = None) -> list[str]:
    # Without --die-with-parent, which means the thread that started it; the server ends when its input does.
    if namespaces is None:
        namespaces = next(options for options in _namespaces() if not _try_bubblewrap(options))
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives"]
    needed = [*system, interpreter.prefix, interpreter.base_prefix, os.path.dirname(interpreter.path), package]
    binds = [part for path in needed if os.path.exists(path) for part in ("--ro-bind", path, path)]
    # --as-pid-1: else a process of bwrap's own, with the server's pipes open, would be in sight of programs.
    walls = [*namespaces.split(), "--as-pid-1", "--new-session", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc"]
    return ["bwrap", *walls, *binds]
