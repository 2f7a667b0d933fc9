"""The sandbox: what a program may not do ends as its outcome, and the rest of a batch goes on."""

import ast
import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.execution.isolation import PROBLEMS
from remedy.data_gen.execution.program import Event, Program, ProgramError
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig
from remedy.data_gen.execution.tracer import trace
from remedy.settings import ConfigError


def program(body: str, before: str = "") -> Program:
    text = "\n".join(f"    {line}" for line in body.split("\n"))
    return Program(f"{before}\ndef main():  # << START_OF_TRACE\n{text}\n    return 1\n", "untrusted.py")


LOW = """import sys
def f(n): return f(n + 1)
sys.setrecursionlimit(120)
try: f(0)
except RecursionError: pass"""
INTERRUPTED = """import signal
def late(*_): raise TimeoutError
class A:
    def __repr__(self):
        while waits: pass
        return 'A'
signal.signal(signal.SIGALRM, late)
waits = False
x = A()
signal.setitimer(signal.ITIMER_REAL, 0.05)
try: waits = True
except TimeoutError: pass"""
THROWN = """def inner():
    try: yield 1
    except ValueError: return 2
def outer():
    x = yield from inner()
    yield x
g = outer()
next(g)
x = g.throw(ValueError)"""
EARLIER = """class A:
    def __repr__(self):
        return 'A' + '' * sum(map(ord, 'x' * 10**6))
n = A()
import signal
signal.setitimer(signal.ITIMER_REAL, 0.05)
while True: n = A()"""
HANDLER = "import signal\ndef late(*_): raise KeyError\nsignal.signal(signal.SIGALRM, late)"
"""What is no forgery: the tracer runs out of stack, a generator goes on without a call, a signal comes while a frame is recorded."""


def limited(**changes: Any) -> TracerConfig:
    limits = {"timeout_seconds": 2, "memory_megabytes": 512, "max_frames": 5000, "max_value_characters": 100_000}
    return TracerConfig.model_validate({**limits, **changes})


@pytest.fixture(scope="module", params=["none", "landlock", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if problem := PROBLEMS.get(request.param, str)():
        pytest.skip(problem)
    with Sandbox(limited(isolation=request.param)) as box:
        yield box


def test_the_sandbox_gives_the_same_frames_as_this_process(sandbox: Sandbox) -> None:
    good = program("x = ['é', '\\ud800', 1.5]\ny = {k: len(k) for k in 'ab'}")
    assert sandbox.trace(good).frames == trace(good).frames
    bad = program("return 1 // 0")
    assert sandbox.trace(bad) == trace(bad)
    assert sandbox.trace(bad).raised


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("frames", "while True: x = 0"),
        ("time", "import time; time.sleep(60)"),
        ("frames", "for i in range(10**6):\n    x = i"),
        ("output", "x = 'a' * 200_000"),
        ("killed", "import os; os._exit(0)"),
        ("memory", "x = bytearray(10**10)"),
        ("process", "import os\nwhile True: os.fork()"),
        ("process", "import subprocess; subprocess.run(['true'])"),
        ("process", "import os; os.system('true')"),
        ("process", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
        ("process", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"),
        ("process", "import multiprocessing as m; m.Process(target=print).start()"),
        ("process", "import resource; resource.setrlimit(resource.RLIMIT_CPU, (99, 99))"),
        ("thread", "import threading; threading.Thread(target=print).start()"),
        ("thread", "from concurrent.futures import ThreadPoolExecutor as T\nT().submit(print)"),
        ("network", "import socket; socket.create_connection(('192.0.2.1', 80))"),
        ("network", "import urllib.request; urllib.request.urlopen('http://192.0.2.1')"),
        ("native", "import ctypes; ctypes.CDLL(None).fork()"),
        ("files", "open('/tmp/remedy-escape', 'w')"),
        ("files", "import os; os.open('../escape', os.O_CREAT | os.O_WRONLY)"),
        ("files", "import pathlib; pathlib.Path('..', 'escape').touch()"),
        ("files", "import os; os.remove('/etc/hostname')"),
        ("files", "import os; os.rename('/etc/hostname', 'mine')"),
        ("files", "import os; os.symlink('/etc', 'in')\nopen('in/hostname', 'w')"),
        ("files", "try: open('/etc/escape', 'w')\nexcept BaseException: pass"),
        (
            "forged",
            "import os\nfor fd in range(3, 30):\n    try: os.write(fd, bytes([5]) + bytes(7) + b'[1,2]')\n    except OSError: pass",
        ),
        (
            "forged",
            "import os\nfor fd in range(3, 30):\n    try: os.write(fd, bytes([5]) + bytes(7) + b'{1,2]')\n    except OSError: pass",
        ),
        ("repr", "class A:\n    def __repr__(self): raise SystemExit\nx = A()"),
        ("time", "class A:\n    def __repr__(self):\n        while True: pass\nx = A()"),
        ("recursion", "def f(): return f()\nf()"),
        ("recursion", LOW),
        ("resumed", THROWN),
        ("killed", INTERRUPTED),
        ("killed", EARLIER),
        ("raised", "return 1\n  \nraise SystemExit"),
    ],
)
def test_every_bad_end_is_a_recorded_outcome_and_the_next_program_runs(sandbox: Sandbox, kind: str, body: str) -> None:
    before = "import sys\nsys.exit(3)" if kind == "raised" else HANDLER if body == EARLIER else ""
    begin = time.monotonic()
    with pytest.raises(ProgramError, match=r"untrusted\.py: ") as error:
        sandbox.trace(program(body, before))
    assert error.value.kind == kind
    assert time.monotonic() - begin < 10
    assert sandbox.trace(program("x = 2")).result is not None


def test_the_temporary_folder_can_be_written_to_a_limit_and_is_emptied(sandbox: Sandbox) -> None:
    writes = program(
        "with open('a', 'w') as f: f.write('x' * 10)\n"
        "try:\n    with open('b', 'w') as f:\n        f.write('x' * 10**7)\nexcept OSError:\n    x = 'refused'\n"
        "import os\ny = sorted(os.listdir('.'))"
    )
    first, second = sandbox.trace(writes), sandbox.trace(writes)
    assert first.frames == second.frames
    assert first.frames[-2].locals is not None
    assert first.frames[-2].locals["x"].text == "'refused'"
    assert first.frames[-2].locals["y"].text == "['a', 'b']"


@pytest.mark.parametrize("how", ["os.setsid(); time.sleep(60)", "time.sleep(60)"])
def test_processes_are_refused_by_the_walls_and_without_them_die_with_their_program(sandbox: Sandbox, how: str) -> None:
    # `fork_exec` is below what Python reports. Without walls a limit refuses it, though not to root: the server kills what is left.
    wanted = 23 if sys.version_info >= (3, 11) else 22
    arguments = "args, [args[0]], True, (w,), None, None, -1, -1, -1, -1, -1, -1, r, w, True, False, "
    arguments += "-1, None, None, None, -1, None, False" if wanted == 23 else "None, None, None, -1, None"
    body = (
        "import _posixsubprocess, os, sys\nr, w = os.pipe()\n"
        f"args = [sys.executable.encode(), b'-c', b'import os, time; {how}']\n"
        f"try: x = _posixsubprocess.fork_exec({arguments}) > 1\nexcept OSError as error: x = error.errno"
    )
    begin = time.monotonic()
    state = sandbox.trace(program(body)).frames[-2].locals
    assert state is not None
    walled = sandbox.config.isolation != "none"
    assert state["x"].text in ([str(errno.EPERM)] if walled else ["True"] if os.geteuid() == 0 else [str(errno.EAGAIN)])
    assert sandbox.trace(program("x = 2")).result is not None
    assert time.monotonic() - begin < 8
    assert sandbox._server is not None
    tree = Path(f"/proc/{sandbox._server.pid}/task/{sandbox._server.pid}/children")
    if sandbox.config.isolation == "none" and tree.exists():
        while tree.read_text().split():  # the last program's own process ends while its reply is read
            assert time.monotonic() - begin < 10
            time.sleep(0.01)


def test_bubblewrap_hides_files_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := PROBLEMS["bubblewrap"]():
        pytest.skip(problem)
    (tmp_path / "secret").write_text("secret")
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    looks = program(
        f"import os\nx = os.path.exists({str(tmp_path / 'secret')!r})\ny = [k for k in os.environ if 'KEY' in k]\n"
        "z = sum(map(os.path.exists, map('/proc/{}'.format, range(3, 4000))))"
    )
    with Sandbox(limited(isolation="bubblewrap")) as box:
        state = box.trace(looks).frames[-2].locals
    assert state is not None
    assert (state["x"].text, state["y"].text) == ("False", "[]")
    assert int(state["z"].text) < 6  # of all processes, only the sandbox's own
    with pytest.raises(ValueError, match="remove `python`"):
        TracerConfig(isolation="trusted", python="python3")


def test_another_interpreter_runs_the_programs_and_is_named(tmp_path: Path) -> None:
    found = {
        Path(p).resolve()
        for p in glob("/usr/bin/python3.1?") + glob(os.path.expanduser("~/.pyenv/versions/3.1*/bin/python"))
    }
    others = []
    for python in sorted(found):
        version = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info[:3])"], capture_output=True, text=True
        ).stdout
        numbers = ast.literal_eval(version) if version else ()
        if (3, 10) <= numbers < (3, 14) and numbers[:2] != sys.version_info[:2]:
            others.append((python, numbers))
    if not others:
        pytest.skip("no other Python from 3.10 to 3.13 is installed")
    comprehension = program("x = [i for i in 'ab']")
    for python, numbers in others:
        with Sandbox(limited(python=str(python))) as box:
            assert box.environment.python == f"CPython {'.'.join(map(str, numbers))}"
            frames = box.trace(comprehension).frames
        inner = sum(frame.event is Event.CALL for frame in frames) - 1
        assert inner == (0 if numbers >= (3, 12) else 1)


def test_wrong_interpreters_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "broken").chmod(0o755)
    for wrong, says in (("python9.9", "no interpreter 'python9.9'"), (str(tmp_path / "broken"), "no working Python")):
        with pytest.raises(ConfigError, match=says), Sandbox(limited(python=wrong)) as box:
            box.trace(program("x = 1"))


def test_output_of_a_program_does_not_reach_ours(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    sandbox.trace(program("import os\nprint('loud')\nos.write(1, b'loud')\nos.write(2, b'loud')"))
    assert capfd.readouterr() == ("", "")
