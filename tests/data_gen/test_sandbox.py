import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remedy.data_gen.program import Program, ProgramError
from remedy.data_gen.sandbox import Sandbox, SandboxLimits
from remedy.data_gen.tracer import trace


def program(body: str, before: str = "") -> Program:
    text = "\n".join(f"    {line}" for line in body.split("\n"))
    return Program(f"{before}\ndef main():  # << START_OF_TRACE\n{text}\n    return 1\n", "untrusted.py")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxLimits(seconds=2, megabytes=512, frames=5000, output=100_000)) as box:
        yield box


def test_the_sandbox_gives_the_same_frames_as_this_process(sandbox: Sandbox) -> None:
    good = program("x = ['é', '\\ud800', 1.5]\ny = {k: len(k) for k in 'ab'}")
    assert sandbox.trace(good).frames == trace(good).frames


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("frames", "while True: x = 0"),
        ("time", "import time; time.sleep(60)"),
        ("frames", "for i in range(10**6):\n    x = i"),
        ("output", "x = 'a' * 200_000"),
        ("killed", "import os; os._exit(0)"),
        ("killed", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
        ("killed", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"),
        (
            "killed",
            "import os\nfor fd in range(3, 30):\n    try: os.write(fd, bytes([5]) + bytes(7) + b'[1,2]')\n    except OSError: pass",
        ),
        (
            "killed",
            "import os\nfor fd in range(3, 30):\n    try: os.write(fd, bytes([5]) + bytes(7) + b'{1,2]')\n    except OSError: pass",
        ),
        ("repr", "class A:\n    def __repr__(self): raise OSError\nx = A()"),
        ("time", "class A:\n    def __repr__(self):\n        while True: pass\nx = A()"),
        ("recursion", "def f(): return f()\nf()"),
        ("raised", "return 1\n  \nraise SystemExit"),
    ],
)
def test_every_bad_end_is_a_recorded_outcome_and_the_next_program_runs(sandbox: Sandbox, kind: str, body: str) -> None:
    before = "import sys\nsys.exit(3)" if kind == "raised" else ""
    begin = time.monotonic()
    with pytest.raises(ProgramError, match=r"untrusted\.py: ") as error:
        sandbox.trace(program(body, before))
    assert error.value.kind == kind
    assert time.monotonic() - begin < 10
    assert sandbox.trace(program("x = 2")).result is not None


def test_ten_gigabytes_are_refused(sandbox: Sandbox) -> None:
    frames = sandbox.trace(program("try:\n    x = bytearray(10**10)\nexcept MemoryError:\n    x = 'refused'")).frames
    assert frames[-2].locals is not None
    assert frames[-2].locals["x"].text == "'refused'"


def test_files_cannot_be_filled_and_the_folder_is_emptied(sandbox: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    frames = sandbox.trace(
        program(
            f"try:\n    with open({str(target)!r}, 'w') as f:\n        f.write('x' * 10)\nexcept OSError:\n    x = 'refused'"
        )
    ).frames
    assert frames[-2].locals is not None
    assert frames[-2].locals["x"].text == "'refused'"
    assert not target.exists() or target.stat().st_size == 0
    listing = program("import os\nopen('left', 'w').close()\nx = os.listdir('.')")
    first, second = sandbox.trace(listing), sandbox.trace(listing)
    assert first.frames == second.frames


def test_output_of_a_program_does_not_reach_ours(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    sandbox.trace(program("import os\nprint('loud')\nos.write(1, b'loud')\nos.write(2, b'loud')"))
    assert capfd.readouterr() == ("", "")


def test_closing_leaves_no_process_behind() -> None:
    box = Sandbox()
    box.trace(program("x = 1"))
    assert box._server is not None
    pid = box._server.pid
    box.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
