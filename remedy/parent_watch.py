"""Processes that end when the one that started them does, however it ended: nobody would wait for their work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

SECONDS = 0.5


def end_with_parent(parent: int, end: Callable[[], object]) -> None:
    """Call `end`, in a thread of its own, once `parent` is no longer this process's parent.

    A look twice a second, since Linux's signal for it (PR_SET_PDEATHSIG) comes already when the parent's *thread* ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        end()

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()
