"""The kernel's walls one by one: older versions of Landlock, namespaces alone, what runs behind them and ends with them."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from remedy.data_gen.execution import isolation, sandbox
from remedy.data_gen.execution.isolation import PROBLEMS, resolve
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.settings import ConfigError, build

needs_landlock = pytest.mark.skipif(bool(PROBLEMS["landlock"]()), reason=PROBLEMS["landlock"]())
ISOLATIONS = [*PROBLEMS, "none"]


def program(body: str) -> Program:
    text = "\n".join(f"    {line}" for line in body.split("\n"))
    return Program(f"import os\ndef main():  # << START_OF_TRACE\n{text}\n    return 1\n", "untrusted.py")


def box(name: str, **changes: Any) -> Sandbox:
    if problem := PROBLEMS.get(name, str)():
        pytest.skip(problem)
    return Sandbox(build(TracerConfig, {"isolation": name, "timeout_seconds": 2, **changes}))


def value(box: Sandbox, body: str) -> str:
    """What `x` is after the body."""
    state = box.trace(program(body)).frames[-2].locals
    assert state is not None
    return state["x"].text


def in_a_child(do: Callable[[], None]) -> int:
    """The exit status of a forked process that does something; 99 for an exception."""
    child = os.fork()
    if child == 0:
        try:
            do()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        return
    raise AssertionError("a door stands open")


@needs_landlock
@pytest.mark.parametrize("abi", range(1, 8))
def test_older_versions_of_landlock_hold_the_same_doors(abi: int, tmp_path: Path) -> None:
    from remedy.data_gen.execution import kernel
    from remedy.data_gen.execution.walls import Walls

    if kernel.landlock_abi() < abi:
        pytest.skip(f"this kernel's Landlock is older than {abi}")
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    base.chmod(0o711)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    os.chmod(outside / "secret", 0o666)
    walls = Walls(str(base), namespaces=False, most=abi)
    folder = base / "program"
    folder.mkdir()
    walls.give(str(folder))
    assert walls.holds[0] == f"Landlock ABI {abi}"

    def tries() -> None:
        os.chdir(folder)
        walls.enter()
        secret = str(outside / "secret")
        Path("own").write_text("x")
        os.rename("own", "other")
        os.listdir(os.path.dirname(os.__file__))
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC, 3, 3 | os.O_TRUNC):
            refused(lambda: os.open(secret, flags))  # noqa: B023
        refused(lambda: os.open(os.__file__, os.O_RDONLY | os.O_TRUNC))
        refused(lambda: os.truncate(secret, 0))
        refused(lambda: os.truncate(os.__file__, os.path.getsize(os.__file__)))
        refused(lambda: os.remove(secret))
        refused(lambda: os.rename(secret, "mine"))
        refused(lambda: os.link(secret, "mine"))
        refused(lambda: os.mkdir(outside / "new"))
        refused(lambda: os.mkdir(base / "new"))
        refused(lambda: os.listdir(outside))
        refused(os.fork)
        refused(socket.socket)
        refused(lambda: os.kill(os.getppid(), 0))
        refused(lambda: os.execv("/bin/true", ["true"]))
        os.kill(os.getpid(), 0)

    assert in_a_child(tries) == 0
    assert (outside / "secret").read_text() == "secret"


@needs_landlock
def test_no_modes_are_changed_behind_landlock_alone(tmp_path: Path) -> None:
    """Landlock does not restrict these calls, and the program's user may own the user's files."""
    from remedy.data_gen.execution.walls import Walls

    tmp_path.chmod(0o711)
    walls = Walls(str(tmp_path), namespaces=False)
    (tmp_path / "program").mkdir()
    walls.give(str(tmp_path / "program"))

    def tries() -> None:
        os.chdir(tmp_path / "program")
        Path("own").write_text("x")
        own = os.open("own", os.O_RDONLY)
        walls.enter()
        for change in (lambda: os.chmod("own", 0o777), lambda: os.fchmod(own, 0o777), lambda: os.utime("own")):
            refused(change)
        refused(lambda: os.chown("own", os.getuid(), -1))
        refused(lambda: os.setxattr("own", "user.x", b"x"))

    assert in_a_child(tries) == 0


def test_where_nothing_works_untrusted_programs_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        isolation, "PROBLEMS", {"bubblewrap": lambda: "bwrap is not installed", "landlock": lambda: "no Landlock"}
    )
    says = "bwrap is not installed; no Landlock.*install bubblewrap, or accept with `isolation: none`"
    with pytest.raises(ConfigError, match=says) as error, Sandbox(TracerConfig()) as box:
        box.trace(program("x = 1"))
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="isolation landlock: no Landlock"):
        resolve("landlock")
    assert resolve("none") == "none"


@pytest.mark.parametrize("name", ISOLATIONS)
def test_ordinary_programs_run_behind_the_walls(name: str) -> None:
    bodies = (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.001)\n    return 3\nx = asyncio.run(f())",
        "import decimal, sqlite3, hashlib, zoneinfo, random, tempfile, ssl, mimetypes, locale, uuid, statistics\nx = 3",
        "import shutil, tempfile\nd = tempfile.mkdtemp()\nopen(d + '/a', 'w').close()\nshutil.rmtree(d)\nx = 3 - len(os.listdir('.'))",
        "os.mkdir('a'); os.mkdir('b'); open('a/f', 'w').close()\nos.rename('a', 'c')\nx = 3",
        "import sqlite3\nc = sqlite3.connect('own.db')\nc.execute('create table t (x)')\nc.commit()\nx = 3",
        "open(os.devnull, 'w').write('x')\nx = len(open('/dev/urandom', 'rb').read(3))",
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(0, 0.01)\nsignal.pause()\nx = 3",
    )
    with box(name) as walled:
        for body in bodies:
            assert value(walled, body) == "3", body


@pytest.mark.slow
@pytest.mark.parametrize("name", ISOLATIONS)
def test_a_server_that_does_not_answer_is_killed_with_all_that_is_its(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_MARGIN_SECONDS", 0.5)
    with box(name, timeout_seconds=1) as stopped:
        assert value(stopped, "x = 1") == "1"
        tree = list(stopped._tree)
        tree[-1].send_signal(signal.SIGSTOP)  # what a program without walls can do to it
        begin = time.monotonic()
        assert value(stopped, "x = 2") == "2"  # in a new one
        assert time.monotonic() - begin < 8
        assert not [process for process in tree if alive(process)]
    assert not [process for process in stopped._tree if alive(process)]


def alive(process: psutil.Process) -> bool:
    with_status = process.is_running() and process.status()
    return bool(with_status) and with_status != psutil.STATUS_ZOMBIE


@pytest.mark.slow
@pytest.mark.parametrize("name", ISOLATIONS)
def test_nothing_outlives_a_killed_caller(name: str) -> None:
    box(name).close()
    script = (
        "import sys\nfrom remedy.data_gen.execution.program import Program\n"
        "from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig\n"
        f"box = Sandbox(TracerConfig(isolation={name!r}, timeout_seconds=60))\n"
        "box.environment\nprint(*[p.pid for p in box._tree], flush=True)\n"
        "box.trace(Program('def main():  # << START_OF_TRACE\\n    while True: x = 0\\n'))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as caller:
        assert caller.stdout is not None
        tree = [psutil.Process(int(pid)) for pid in caller.stdout.readline().split()]
        time.sleep(0.3)
        tree += tree[-1].children(recursive=True)
        caller.kill()
    deadline = time.monotonic() + 8
    while any(alive(process) for process in tree):
        assert time.monotonic() < deadline, tree
        time.sleep(0.05)


@pytest.mark.slow
def test_too_much_space_ends_as_files() -> None:
    """The server looks, whatever walls there are."""
    with (
        box("none", timeout_seconds=30, max_frames=10**6) as full,
        pytest.raises(ProgramError, match="MB or 10,000 files") as error,
    ):
        full.trace(program("list(map(os.mkdir, map(str, range(10_001))))\nimport time; time.sleep(29)"))
    assert error.value.kind == "files"


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_program_leaves_no_sign_for_the_next(name: str) -> None:
    """No flags of a shared descriptor, no folder that grew."""
    looks = "import fcntl\nx = [fcntl.fcntl(0, fcntl.F_GETFL), os.stat('.').st_size, os.listdir('..'), os.listdir('.')]"
    leaves = (
        "import fcntl\nfcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)\nx = 1",
        "x = [os.mkdir('n' * 200 + str(i)) for i in range(300)]\nx = [os.rmdir(n) for n in os.listdir('.')]",
    )
    with box(name, timeout_seconds=10) as walled:
        clean = value(walled, looks)
        for body in leaves:
            value(walled, body)
            assert value(walled, looks) == clean


def test_namespaces_hold_without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel before 5.13, where bubblewrap's mounts are the only wall around files."""
    given = isolation.server_command

    def blunted(*arguments: Any) -> list[str]:
        command = given(*arguments)
        place = command.index("-c") + 1
        begin, end = command[place].split("from remedy.data_gen.execution.server")
        mask = "from remedy.data_gen.execution import kernel\nkernel.landlock_abi = lambda: 0\n"
        command[place] = f"{begin}{mask}from remedy.data_gen.execution.server{end}"
        return command

    monkeypatch.setattr(sandbox, "server_command", blunted)
    with box("bubblewrap") as walled:
        assert "Landlock" not in walled.environment.isolation
        server = walled._server
        # Nothing refuses a file beside its own folder, so that it is removed.
        assert past_the_hook(walled, "'../left'", "os.O_WRONLY | os.O_CREAT") == "'open'"
        assert value(walled, "x = os.listdir('..')") == "['program']"
        for path in ("/left", "/tmp/left", "/dev/left", "/dev/shm/left", os.__file__):
            assert past_the_hook(walled, f"'{path}'", "os.O_WRONLY | os.O_CREAT") == "'refused'", path
        root = (
            "'/proc/sys/kernel/core_pattern'",
            "'/proc/sys/kernel/hostname'",
            "f'/proc/{os.getppid()}/oom_score_adj'",
        )
        for path in root:
            assert past_the_hook(walled, path, "os.O_WRONLY") == "'refused'", path
        for path in (
            f"f'/proc/{{os.getppid()}}/{name}'" for name in ("mem", "environ", "fd/0", "fd/1", "fd/3", "fd/4")
        ):
            assert past_the_hook(walled, path, "os.O_RDONLY") == "'refused'", path
        assert value(walled, "x = [p for p in os.listdir('/proc') if p.isdigit()] == ['1', str(os.getpid())]") == "True"
        assert walled._server is server


def past_the_hook(walled: Sandbox, path: str, flags: str) -> str:
    """What an `open` gives a program that has blinded the hook to paths."""
    body = (
        "import gc, types\n"
        "for f in [o for o in gc.get_objects() if isinstance(o, types.FunctionType) and 'inside' in o.__code__.co_freevars]:\n"
        "    f.__closure__[f.__code__.co_freevars.index('inside')].cell_contents = lambda *a: True\n"
        f"try: os.open({path}, {flags})\nexcept OSError: x = 'refused'\nelse: x = 'open'"
    )
    return value(walled, body)


@pytest.mark.skipif(platform.system() != "Linux", reason="walls are Linux's")
def test_nothing_of_ours_is_open_in_a_program() -> None:
    for name in ISOLATIONS:
        if PROBLEMS.get(name, str)():
            continue
        with box(name) as walled:
            body = "x = 0\nfor f in range(250):\n    try: os.fstat(f); x += 1\n    except OSError: pass"
            assert value(walled, body) == "4", name  # input, output, errors, and the pipe of the reply
