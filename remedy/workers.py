"""Processes that do parts of one command's work."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from remedy.parent_watch import end_with_parent
from remedy.settings import UserError


@contextlib.contextmanager
def worker_pool(workers: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """So many processes, each of which calls `begin` with what is `given` (picklable) before its first work. They end with this
    process, however that ends; what they are writing then, the next run clears away.

    Raises:
        UserError: one of them was killed.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(os.getpid(), begin, given)) as pool:
            try:
                yield pool
            finally:  # at an error or an interrupt, what is begun is the last
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, perhaps for want of memory: give the same command with fewer --workers; it goes on with what "
            "is not written yet"
        ) from None


def _start(parent: int, begin: Callable[..., None], given: tuple[Any, ...]) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all; the parent lets what is begun be finished
    end_with_parent(parent, lambda: os._exit(1))
    begin(*given)
