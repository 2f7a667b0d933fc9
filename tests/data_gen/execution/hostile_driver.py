"""Runs hostile programs in one sandbox, each followed by a good one, and says what became of each: JSON, one line a program.

python hostile_driver.py ISOLATION FOLDER [--blind] FAMILY...    --blind: every program switches the audit hook off first

The first line says which walls hold, or as `problem` why this isolation cannot be used by whoever runs this.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hostile import FAMILIES, source

from remedy.data_gen.execution.isolation import PROBLEMS
from remedy.data_gen.execution.program import Program, ProgramError
from remedy.data_gen.execution.sandbox import Sandbox, TracerConfig

CANARY = "canary-of-the-environment-4711"
TEXT = "canary-of-the-file-4712"
GOOD = Program("def main():  # << START_OF_TRACE\n    x = [1, 2]\n    return sum(x)\n", "good.py")
LIMITS = {"timeout_seconds": 1.5, "memory_megabytes": 512, "max_frames": 50_000, "max_value_characters": 200_000}


class World:
    """What the programs try to reach, and how it was left."""

    def __init__(self, top: Path) -> None:
        self.folder = top / "canary"
        self.secret = self.folder / "secret"
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.sockets = [self.tcp]
        for kind, address in ((socket.SOCK_STREAM, str(top / "socket")), (socket.SOCK_STREAM, f"\0{top}")):
            self.sockets.append(socket.socket(socket.AF_UNIX, kind))
            self.sockets[-1].bind(address)
            self.sockets[-1].listen()
        for each in self.sockets:
            each.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "100000"], start_new_session=True)
        self.places: dict[str, Any] = {
            "FOLDER": str(self.folder),
            "SECRET": str(self.secret),
            "PORT": self.tcp.getsockname()[1],
            "SOCKET": str(top / "socket"),
            "ABSTRACT": f"\0{top}",
            "VICTIM": self.victim.pid,
            "PARENT": os.getpid(),
        }
        self.make()

    def make(self) -> None:
        """Lay the files out anew."""
        for path, mode in ((self.folder, 0o755), (Path(os.devnull), 0o666)):
            with contextlib.suppress(OSError):
                path.chmod(mode)
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "empty").mkdir(parents=True)
        self.secret.write_text(TEXT)
        (self.folder / "secret_module.py").write_text(f"x = {TEXT!r}\n")
        with contextlib.suppress(OSError):
            os.setxattr(self.secret, "user.kept", TEXT.encode())
        if self.victim.poll() is not None:
            self.victim = subprocess.Popen(["sleep", "100000"], start_new_session=True)
            self.places["VICTIM"] = self.victim.pid
        self.before = self.state()

    def state(self) -> dict[str, Any]:
        """All that must not change."""
        found: dict[str, Any] = {}
        for path in (self.folder, self.folder / "empty", self.secret, Path(os.devnull), Path(os.__file__)):
            with contextlib.suppress(OSError):
                about = path.stat()
                kept = about.st_mtime_ns if path.is_file() else 0
                found[str(path)] = [about.st_mode, about.st_uid, about.st_size * path.is_file(), kept]
        with contextlib.suppress(OSError):
            found["files"] = sorted(os.listdir(self.folder))
            found["text"] = self.secret.read_text()
            found["attributes"] = sorted(os.listxattr(self.secret))
        with contextlib.suppress(OSError):
            found["victim"] = Path(f"/proc/{self.victim.pid}/stat").read_text().split()[2] not in "TZ"
            found["niceness"] = os.getpriority(os.PRIO_PROCESS, self.victim.pid)
            found["processors"] = sorted(os.sched_getaffinity(self.victim.pid))
        library = Path(os.__file__).parent / "remedy_left.py"
        left = [library, *map(Path, ("/dev/shm/remedy_left", "/dev/shm/sem.remedy_left", "/dev/mqueue/remedy_left"))]
        found["left"] = [str(path) for path in left if path.exists()]
        for kind in ("shm", "msg", "sem"):
            with contextlib.suppress(OSError):
                found[kind] = " 4242 " in Path(f"/proc/sysvipc/{kind}").read_text()
        for path in left:
            with contextlib.suppress(OSError):
                path.unlink()
        connected = 0
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.accept()[0].close()
                connected += 1
        found["connected"] = connected
        return found

    def escape(self) -> str:
        """What changed since the files were laid out, in words; lays them out anew if something did."""
        now = self.state()
        if now == self.before:
            return ""
        changed = [key for key in {**self.before, **now} if self.before.get(key) != now.get(key)]
        self.make()
        return f"changed: {', '.join(changed)}"


def leaked(frames: list[Any], family: str, raised: bool) -> str:
    """What a program's frames show that it got."""
    text = repr(frames)
    for secret in (CANARY, TEXT):
        if secret in text:
            return f"read {secret}"
    last = frames[-2].locals or {} if len(frames) > 1 else {}
    if family == "reads" and "x" in last and last["x"].text not in ("''", "[]", "b''", "None", "0", "False"):
        return f"read {last['x'].text[:80]}"
    if family == "native" and "allowed" in last and last["allowed"].text == "True":
        return f"the call was allowed: {last['x'].text}"
    if family == "signals" and not raised:
        return "was not refused"
    return ""


def attempt(box: Sandbox, world: World, family: str, name: str, hooked: bool) -> dict[str, Any]:
    """One hostile program, then a good one."""
    begin = time.monotonic()
    escape, outcome, after = "", "ok", ""
    program = Program(source(family, name, world.places, hooked), f"{family}, {name}")
    try:
        trace = box.trace(program)
        raised = any(frame.event.value == "exception" for frame in trace.frames[-2:])
        escape = leaked(trace.frames, family, raised)
        if raised:
            outcome = next(f.value.text for f in trace.frames[-2:] if f.event.value == "exception" and f.value)[:150]
    except ProgramError as error:
        outcome = error.kind if error.kind != "raised" else str(error)[:200]
        if any(secret in str(error) for secret in (CANARY, TEXT)):
            escape = "read a secret into its outcome"
    except Exception as error:
        outcome, after = "traceback", f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin
    try:
        if (value := box.trace(GOOD).result) is None or value.text != "3":
            after = f"the good program gave {value}"
    except Exception as error:
        after = f"the good program: {type(error).__name__}: {error}"
    escape = escape or world.escape()
    found = {"family": family, "name": name, "escape": escape, "outcome": outcome, "after": after}
    return found | {"seconds": round(seconds, 2)}


def main() -> None:
    isolation, top, *rest = sys.argv[1:]
    hooked, families = "--blind" not in rest, [word for word in rest if word != "--blind"]
    os.environ["REMEDY_CANARY"] = CANARY
    if problem := PROBLEMS[isolation]():
        print(json.dumps({"problem": problem}))
        return
    world = World(Path(top))
    try:
        config = TracerConfig.model_validate({"isolation": isolation, **LIMITS})
        # Most bombs run until they are stopped; the others import what takes its time.
        with Sandbox(config) as box, Sandbox(config.changed({"timeout_seconds": 0.7})) as short:
            holds = box.environment.isolation
            print(json.dumps({"isolation": holds, "uid": os.geteuid()}), flush=True)
            if not hooked and "seccomp" not in holds:
                return  # some of these would end more than themselves
            for family in families:
                for name in FAMILIES[family]:
                    used = short if family == "bombs" else box
                    print(json.dumps(attempt(used, world, family, name, hooked)), flush=True)
    finally:
        world.victim.kill()


if __name__ == "__main__":
    main()
