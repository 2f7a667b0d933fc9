"""How the sandbox's server is started: under which interpreter, and inside bubblewrap where that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from remedy.data_gen.settings import ConfigError

Isolation = Literal["auto", "bubblewrap", "limits", "trusted"]

# The server needs four modules of this package and nothing that is installed, so any interpreter can run it. The first start makes
# orphans of a program come back to the server (PR_SET_CHILD_SUBREAPER), which lasts over exec, and keeps ctypes out of it.
_START = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    pass
os.execv(sys.executable, [sys.executable, "-s", "-c", sys.argv[1], *sys.argv[2:]])
"""
_SERVE = """
import sys, types
for name, path in (("remedy", []), ("remedy.data_gen", []), ("remedy.data_gen.execution", [sys.argv[2]])):
    module = types.ModuleType(name)
    module.__path__ = path
    sys.modules[name] = module
sys.path = [path for path in sys.path if path]
from remedy.data_gen.execution.server import serve
serve(sys.argv[1])
"""


def server_command(python: str | None, isolation: Isolation, folder: str) -> list[str]:
    """The command that starts a server whose programs run in `folder`.

    Raises:
        ConfigError: the interpreter is not there, or bubblewrap is asked for and does not work here.
    """
    package = str(Path(__file__).resolve().parent)
    interpreter = find_interpreter(python)
    command = [interpreter.path, "-s", "-c", _START, _SERVE, folder, package]
    if resolve(isolation) != "bubblewrap":
        return command
    return [*_bubblewrap(interpreter, package), "--bind", folder, folder, "--chdir", folder, "--", *command]


class Interpreter(NamedTuple):
    """A Python interpreter, and the folders its libraries are in."""

    path: str
    prefix: str
    base_prefix: str


@lru_cache(maxsize=8)
def find_interpreter(python: str | None) -> Interpreter:
    """The interpreter that runs the programs; the one that runs us if none is named.

    Raises:
        ConfigError: it is not there, or is none.
    """
    if python is None:
        return Interpreter(sys.executable, sys.prefix, sys.base_prefix)
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise ConfigError(
            f"task.tracer.python: no interpreter {python!r}; give its path, or a name on PATH such as python3.12"
        )
    asked = [found, "-c", "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep='\\n')"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    answer = done.stdout.split("\n")
    if done.returncode != 0 or len(answer) < 3:
        raise ConfigError(
            f"task.tracer.python: {found} is no working Python interpreter ({done.stderr.strip()[-200:]})"
        )
    return Interpreter(*answer[:3])


def resolve(isolation: Isolation) -> str:
    """`auto` settled: bubblewrap where it is installed and works, else limits.

    Raises:
        ConfigError: bubblewrap is asked for by name and does not work here.
    """
    if isolation not in ("auto", "bubblewrap"):
        return isolation
    problem = _bubblewrap_problem()
    if not problem:
        return "bubblewrap"
    if isolation == "bubblewrap":
        raise ConfigError(f"task.tracer.isolation bubblewrap: {problem}; install it, or use `limits` or `auto`")
    return "limits"


def environment(folder: str) -> dict[str, str]:
    """The server's environment variables: nothing of ours, temporary files in the programs' own folder, and sets of strings in
    the same order in every run."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


@lru_cache(maxsize=1)
def _bubblewrap_problem() -> str:
    """Why bubblewrap cannot be used, or an empty string."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    package, interpreter = str(Path(__file__).resolve().parent), find_interpreter(None)
    command = [*_bubblewrap(interpreter, package), "--", interpreter.path, "-S", "-c", ""]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not start ({error})"
    return "" if done.returncode == 0 else f"bwrap does not start ({done.stderr.strip() or done.returncode})"


def _bubblewrap(interpreter: Interpreter, package: str) -> list[str]:
    """bwrap with no network, its own processes, and of the file system only what Python needs, read-only.

    Without --die-with-parent, which means the thread that started it; the server ends when its input does.
    """
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/alternatives"]
    needed = [*system, interpreter.prefix, interpreter.base_prefix, os.path.dirname(interpreter.path), package]
    binds = [part for path in needed if os.path.exists(path) for part in ("--ro-bind", path, path)]
    walls = ["--unshare-all", "--new-session", "--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc"]
    return ["bwrap", *walls, *binds]
