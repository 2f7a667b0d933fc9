"""The processes of a run: what they agree on, and how they leave."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


def ensure_launched() -> None:
    """Make this process a world of one, as a launcher would, unless a launcher has made a world."""
    if "RANK" in os.environ:
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


_host_group: Any = None


def largest(value: int) -> int:
    """The largest value over all processes, agreed on by the hosts, so that no accelerator has to wait for it."""
    return int(_agreed(torch.tensor([value]), dist.ReduceOp.MAX))


def summed(values: torch.Tensor) -> torch.Tensor:
    """The sum of a tensor on the host over all processes."""
    return _agreed(values, dist.ReduceOp.SUM)


def _agreed(values: torch.Tensor, how: Any) -> torch.Tensor:
    global _host_group
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        if _host_group is None:
            _host_group = dist.new_group(backend="gloo", timeout=timedelta(hours=2))
        dist.all_reduce(values, op=how, group=_host_group)
    return values


def leave(status: int = 0) -> None:
    """Leave a distributed run cleanly, with an exit status.

    Two gloo processes sometimes abort while the interpreter shuts down, after all work is done; ending the process here
    avoids that.
    """
    if dist.is_available() and dist.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        os._exit(status)
    if status:
        sys.exit(status)
