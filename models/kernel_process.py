"""The process in which one kernel is tried, which a kernel may end or spoil (`kernel_trial.apart`)."""

from __future__ import annotations

import json
import os
import sys

import torch

import remedy.models.mixers  # noqa: F401 (registers the operations)
from remedy.models.kernel_trial import refusal
from remedy.models.kernels import OPERATIONS, Use
from remedy.parent_watch import end_with_parent


def main() -> None:
    """Try one kernel and write why it is refused, or null, as the last line."""
    asked = json.loads(sys.argv[1])
    end_with_parent(asked["parent"], lambda: os._exit(1))
    use = Use(asked["operation"], tuple(asked["widths"]))
    (candidate,) = (one for one in OPERATIONS[use.operation].kernels if one.path == asked["path"])
    device = torch.device(asked["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    answer = refusal(use, candidate, device, getattr(torch, asked["dtype"]))
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a broken CUDA may not let the interpreter end


if __name__ == "__main__":
    main()
