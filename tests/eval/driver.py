"""`launch/evaluate.py` of which some processes end badly; started by tests under real launchers.

`KILLED`: ranks that are killed (SIGKILL) while they write the line of their third trace; `FULL`: ranks whose disk is full there;
`ROOMLESS`: ranks whose memory has no room for two rows at a time."""

import errno
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from remedy.eval.generators.request_log import Journal
from remedy.eval.generators.speculative import LocalGenerator

RANK = os.environ["RANK"]
LAUNCH = Path(__file__).resolve().parents[2] / "launch" / "evaluate.py"
add, write = Journal.add, LocalGenerator._outputs
held: list[int] = []


def ending(self: Journal, *what: Any) -> None:
    if len(held) == 2 and RANK in os.environ.get("KILLED", ""):
        with self.path.open("a") as file:
            file.write("half a li")
        os.kill(os.getpid(), signal.SIGKILL)
    if len(held) == 2 and RANK in os.environ.get("FULL", ""):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
    held.append(1)
    add(self, *what)


def roomless(self: LocalGenerator, *what: Any) -> Any:
    if self.batch_size > 1 and RANK in os.environ.get("ROOMLESS", ""):
        raise torch.OutOfMemoryError("no room")
    return write(self, *what)


Journal.add = ending  # type: ignore[method-assign]
LocalGenerator._outputs = roomless  # type: ignore[method-assign]
sys.argv[0] = str(LAUNCH)
runpy.run_path(str(LAUNCH), run_name="__main__")
