"""Each kernel tried in a process of its own, all of them at once: what one breaks there is not broken here.

A kernel that reads outside its tensors raises no error that can be caught and forgotten: from then on every call of CUDA in that
process fails. Some kernels do on some GPUs, with some releases of Triton.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import torch

from remedy.models.kernels import OPERATIONS, Kernel, Use, refusal

PATIENCE = 900.0
"""Seconds that a kernel may take to be compiled, tuned and run."""


def apart(asked: Sequence[tuple[Use, Kernel]], device: torch.device, dtype: torch.dtype) -> list[str | None]:
    """Why each of these kernels is not to be used; None of those that compute what the reference does."""
    started = [_started(use, candidate, device, dtype) for use, candidate in asked]
    try:
        return [_answer(candidate, one) for (_, candidate), one in zip(asked, started)]
    finally:
        for one in started:
            if isinstance(one, subprocess.Popen) and one.poll() is None:
                one.kill()
                one.wait()


def _started(use: Use, candidate: Kernel, device: torch.device, dtype: torch.dtype) -> subprocess.Popen[str] | str:
    """A process that tries a kernel, or why none has to."""
    package = candidate.path.split(".")[0]
    if find_spec(package) is None:
        return f"{package} is not installed"
    asked = {"operation": use.operation, "widths": use.widths, "path": candidate.path}
    asked |= {"device": indexed(device), "dtype": str(dtype).removeprefix("torch.")}
    path = os.pathsep.join(part or os.getcwd() for part in sys.path)
    command = [sys.executable, "-m", "remedy.models.kernel_trial", json.dumps(asked)]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def indexed(device: torch.device) -> str:
    """A device by its number: `cuda` alone is another one in another process."""
    return f"cuda:{torch.cuda.current_device()}" if device.type == "cuda" and device.index is None else str(device)


def _answer(candidate: Kernel, started: subprocess.Popen[str] | str) -> str | None:
    if isinstance(started, str):
        return started
    module = candidate.path.rsplit(".", 1)[0]
    try:
        said, complaint = started.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{module} did not come to an end in {PATIENCE:.0f} s"
    lines = said.splitlines()
    if started.returncode == 0 and lines:
        answer: str | None = json.loads(lines[-1])
        return answer
    code = started.returncode
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    last = (complaint.strip().splitlines() or ["nothing said"])[-1]
    return f"{module} ended its process ({ended}: {last:.120})"


def main() -> None:
    """Try one kernel and write why it is refused, or null, as the last line."""
    import remedy.models.mixers  # noqa: F401 (registers the operations)

    asked = json.loads(sys.argv[1])
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
